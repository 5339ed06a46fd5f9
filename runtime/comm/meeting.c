/* Common to both sides of a rendezvous: clocks, message codes, transfers with a deadline,
 * addresses. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "runtime/comm/rendezvous_internal.h"
#include "support/clock.h"

int sc_meet_left_ms(uint64_t deadline)
{
    uint64_t now = sc_milliseconds();
    return now >= deadline ? 0 : deadline - now > INT32_MAX ? INT32_MAX : (int)(deadline - now);
}

void sc_meet_code(const meeting *m, const char *label, const void *nonce, const void *message,
                  size_t size, const void *more, size_t more_size, uint8_t out[SC_SHA256_BYTES])
{
    sc_hmac mac;
    sc_hmac_begin(&mac, m->secret, sizeof m->secret);
    sc_hmac_add(&mac, label, strlen(label));
    sc_hmac_add(&mac, nonce, MEET_NONCE);
    sc_hmac_add(&mac, message, size);
    if (more_size > 0)
        sc_hmac_add(&mac, more, more_size);
    sc_hmac_end(&mac, out);
}

/* ---- bytes by a deadline ---- */

int sc_meet_move(int socket, void *bytes, size_t size, bool sends, uint64_t deadline)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t moved = sends ? send(socket, at, size, MSG_NOSIGNAL) : recv(socket, at, size, 0);
        if (moved == 0)
            return ECONNRESET;
        if (moved < 0 && errno != EAGAIN && errno != EINTR)
            return errno;
        if (moved < 0) {
            struct pollfd p = {.fd = socket, .events = sends ? POLLOUT : POLLIN};
            if (sc_meet_left_ms(deadline) == 0)
                return ETIMEDOUT;
            poll(&p, 1, sc_meet_left_ms(deadline));
            continue;
        }
        at += moved;
        size -= (size_t)moved;
    }
    return 0;
}

/* ---- addresses ---- */

void sc_meet_name_address(const struct sockaddr_storage *address, char *out, size_t size)
{
    char host[MEET_HOST] = "?", port[MEET_PORT] = "?";
    getnameinfo((const struct sockaddr *)address, sc_meet_address_length(address), host,
                sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, size, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

socklen_t sc_meet_address_length(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

void sc_meet_set_port(struct sockaddr_storage *address, uint32_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
}
