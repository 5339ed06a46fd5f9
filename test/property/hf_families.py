"""Two small configurations of each family, as transformers makes them: class of the configuration, class of the model, arguments.

Sizes are chosen so that heads, experts and widths split in two, and so that no two dims have one size. The first of each family is also the
one of the golden files (test/models)."""

from __future__ import annotations

COMMON = {"vocab_size": 48, "num_hidden_layers": 2, "max_position_embeddings": 64}
ROPE = {"rope_type": "default", "rope_theta": 5e4}
LLAMA = COMMON | {"hidden_size": 16, "intermediate_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5,
                  "rope_parameters": ROPE, "tie_word_embeddings": False}

MULTIPLIERS = {"embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22, "attention_multiplier": 0.25}

GPT2 = {"vocab_size": 48, "n_layer": 2, "n_positions": 12, "n_embd": 16, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "bos_token_id": 0, "eos_token_id": 0}
NEOX = COMMON | {"hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4, "rope_parameters": ROPE | {"partial_rotary_factor": 0.25}}
BERT = COMMON | {"max_position_embeddings": 12, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "hidden_dropout_prob": 0.0,
                 "attention_probs_dropout_prob": 0.0}
T5 = {"vocab_size": 48, "d_model": 16, "d_kv": 6, "d_ff": 20, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "dropout_rate": 0.0,
      "decoder_start_token_id": 0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 8}
GEMMA = COMMON | {"hidden_size": 16, "intermediate_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 6,
                  "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"], "pad_token_id": None}
YARN = ROPE | {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 0.5}
GPT_OSS = LLAMA | {"num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"],
                   "intermediate_size": 12, "pad_token_id": None}
DEEPSEEK = COMMON | {"hidden_size": 16, "intermediate_size": 20, "moe_intermediate_size": 12, "num_hidden_layers": 3, "num_attention_heads": 4,
                     "num_key_value_heads": 4, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3, "n_shared_experts": 1,
                     "routed_scaling_factor": 2.5, "kv_lora_rank": 10, "q_lora_rank": 14, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 8,
                     "first_k_dense_replace": 1, "norm_topk_prob": True, "pad_token_id": None}
PHI3 = {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": None, "eos_token_id": 1}

FAMILIES: dict[str, tuple[str, str, list[dict]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", [
        LLAMA,
        LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4, "head_dim": 4},
    ]),
    "mistral": ("MistralConfig", "MistralForCausalLM", [
        LLAMA | {"sliding_window": 3},
        LLAMA | {"sliding_window": None, "tie_word_embeddings": True},
    ]),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", [
        {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"tie_word_embeddings": True},
        {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"num_attention_heads": 2},
    ]),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", [
        GEMMA | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "rope_parameters": ROPE},
        GEMMA | {"attn_logit_softcapping": None, "final_logit_softcapping": None, "num_key_value_heads": 4, "sliding_window": 2, "rope_parameters": ROPE, "pad_token_id": 0},
    ]),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", [
        GEMMA | {"rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
                                     "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e4}}},
        GEMMA | {"num_hidden_layers": 4, "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "final_logit_softcapping": 3.0,
                 "rope_parameters": {"sliding_attention": ROPE, "full_attention": ROPE}},
    ]),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM", [
        GPT_OSS | {"rope_parameters": YARN | {"truncate": False}},
        GPT_OSS | {"rope_parameters": ROPE, "num_key_value_heads": 4, "swiglu_limit": 1.0, "tie_word_embeddings": True},
    ]),
    "deepseek_v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM", [
        DEEPSEEK | {"rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5}},
        DEEPSEEK | {"rope_parameters": ROPE, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False, "num_hidden_layers": 2,
                    "n_shared_experts": 2},
    ]),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", [
        PHI3 | {"rope_parameters": ROPE | {"partial_rotary_factor": 0.75}, "sliding_window": 3},
        PHI3 | {"rope_parameters": {"rope_type": "longrope", "rope_theta": 5e4, "short_factor": [1.0, 1.25], "long_factor": [2.0, 4.5], "partial_rotary_factor": 1.0,
                                    "original_max_position_embeddings": 6},
                "num_attention_heads": 4, "num_key_value_heads": 4, "original_max_position_embeddings": 6, "tie_word_embeddings": True},
    ]),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", [
        LLAMA,
        LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
    ]),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", [
        {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"pad_token_id": 1},
        {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"tie_word_embeddings": True, "attention_bias": True, "pad_token_id": None},
    ]),
    "granite": ("GraniteConfig", "GraniteForCausalLM", [
        {k: v for k, v in LLAMA.items() if k != "head_dim"} | MULTIPLIERS | {"tie_word_embeddings": True},
        {k: v for k, v in LLAMA.items() if k != "head_dim"} | MULTIPLIERS | {"attention_bias": True, "mlp_bias": True, "pad_token_id": 0},
    ]),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", [
        LLAMA | {"num_local_experts": 4, "num_experts_per_tok": 2},
        LLAMA | {"num_local_experts": 6, "num_experts_per_tok": 3, "tie_word_embeddings": True, "sliding_window": 5},
    ]),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", [
        LLAMA | {"moe_intermediate_size": 12, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True},
        LLAMA | {"moe_intermediate_size": 12, "num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": False, "attention_bias": True},
    ]),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", [
        GPT2,
        GPT2 | {"n_inner": 20, "activation_function": "gelu", "scale_attn_weights": False, "tie_word_embeddings": False, "n_head": 2},
    ]),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", [
        NEOX,
        NEOX | {"use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new", "num_attention_heads": 2,
                "rope_parameters": ROPE | {"partial_rotary_factor": 1.0}},
    ]),
    "t5": ("T5Config", "T5ForConditionalGeneration", [
        T5,
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 2, "relative_attention_max_distance": 20,
              "decoder_start_token_id": 3, "pad_token_id": 2},
    ]),
    "bert": ("BertConfig", "BertForMaskedLM", [
        BERT,
        BERT | {"hidden_act": "gelu_new", "pad_token_id": None, "type_vocab_size": 3, "num_attention_heads": 2},
    ]),
}
