"""Two small configurations of each family, as transformers makes them: class of the configuration, class of the model, arguments.

Sizes are chosen so that heads, experts and widths split in two, and so that no two dims have one size. The first of each family is also the
one of the golden files (test/models)."""

from __future__ import annotations

COMMON = {"vocab_size": 48, "num_hidden_layers": 2, "max_position_embeddings": 64}
ROPE = {"rope_type": "default", "rope_theta": 5e4}
LLAMA = COMMON | {"hidden_size": 16, "intermediate_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5,
                  "rope_parameters": ROPE, "tie_word_embeddings": False}

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
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", [
        LLAMA,
        LLAMA | {"tie_word_embeddings": True, "attention_bias": True},
    ]),
}
