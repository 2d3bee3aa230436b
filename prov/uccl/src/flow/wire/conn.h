/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The handshake that makes a flow (docs/protocol/connection.md). It is symmetric and idempotent: both sides may start
 * at once, any step may be lost, doubled or late.
 *
 *   initiator            responder
 *   HELLO       ->                    nothing is kept
 *               <-       COOKIE       a keyed hash of who asked and when; no larger than HELLO
 *   INIT        ->                    proves that the initiator hears us, and knows our connect key
 *               <-       INIT_ACK     both sides have token and parameters of the other: open
 *
 * If the packet asks for another endpoint, and the responder knows where that is, it answers ELSEWHERE. The initiator
 * begins again there.
 */
#ifndef UCCL_FLOW_WIRE_CONN_H
#define UCCL_FLOW_WIRE_CONN_H

#include "flow/wire/addr.h"
#include "flow/wire/io.h"
#include "flow/wire/seal.h"
#include "flow/wire/wire.h"

/* How long a cookie is good after it was made: no INIT is later than this. */
#define UCCL_COOKIE_LIFE_NS (20 * UCCL_NS_PER_S)

/* What a side says of what its lanes can do. flow/wire/conn.c writes it; engine/conn/conn_state.c says what we tell. */
struct uccl_lane_params {
	bool short_stripes;	/* they carry shorter stripes of shorter messages */
	bool lanes_unsolicited; /* they take unsolicited data */
	bool orders_short;	/* it keeps the order of short writes that wait for CTS, to come by lanes */
};

/* What each side tells of itself. conn.c writes it; engine/conn/conn_state.c says what we tell. */
struct uccl_conn_params {
	uint32_t mtu;		/* largest packet it can take */
	uint32_t write_bytes;	/* largest direct write it takes; 0: none */
	uint32_t window;	/* chunks out of order that it can hold, a power of two */
	uint32_t msg_limit;	/* message sequence numbers below this may be sent at once */
	uint16_t paths;		/* paths it will send on */
	uint16_t slots;		/* packets, whatever a slot is, that may be in flight towards it; 0: ask first */
	uint64_t csn;		/* first chunk sequence number it will send */
	uint8_t epoch;		/* of its direct writes */
	uint8_t security;	/* enum uccl_security */
	bool waits;		/* it takes a grant of no slots */
	uint8_t segments;	/* of a chunk that it takes at most; 0: none */
	uint8_t lanes;		/* that it has, UCCL_LANES_MAX at most */
	bool marks;		/* it tells which packets the network marked */
	bool pads;		/* it takes packets with a tail of zeros */
	bool brittle;		/* its path ends with the loss of a part of a write of several packets */
	bool unsolicited;	/* it takes unsolicited data */
	struct uccl_lane_params lane;
	bool delays;		/* it knows UCCL_FLAG_DELAY */
	bool renews;		/* acknowledgements renew its speculative window */
	bool units;		/* it counts slots by what its peer says a slot is, */
	uint8_t slot_unit;	/* and what its own slots are: see slot_unit.h */
	bool aborts;		/* it takes back what its peer takes back */
	bool rails;		/* it has several NICs as one, without direct writes, and tells where they are */
	uint8_t key[UCCL_LONG_KEY]; /* that packets to it are sealed with; random; UCCL_SECURITY_TRUSTED: not told */
};

#define UCCL_PARAMS_LEN 40
/* Payload of INIT and INIT_ACK, and with a key for seals. */
#define UCCL_INIT_PAYLOAD (UCCL_ADDR_LEN + UCCL_PARAMS_LEN + UCCL_MAC_LEN)
#define UCCL_INIT_MAX (UCCL_INIT_PAYLOAD + UCCL_WRAP_LEN)

enum uccl_conn_state {
	UCCL_CONN_IDLE,		/* nothing sent, nothing heard */
	UCCL_CONN_HELLO,	/* HELLO sent, waiting for COOKIE */
	UCCL_CONN_INIT,		/* INIT sent, waiting for INIT_ACK */
	UCCL_CONN_OPEN,
	UCCL_CONN_DEAD,
};

/* conn.c writes it. */
struct uccl_conn {
	enum uccl_conn_state state;
	struct uccl_addr remote;	/* an unknown incarnation is learnt; the key is mixed with the group's */
	struct uccl_conn_params mine, theirs;
	uint64_t token_local;		/* packets to us carry it */
	uint64_t token_remote;		/* 0: not known yet */
	uint64_t nonce;
	uint64_t at;			/* next retransmission; UCCL_NEVER */
	uint64_t started_ns;		/* when HELLO was first due */
	uint64_t sent_ns;		/* when HELLO or INIT was last due; 0: the first one waits */
	uint64_t took_ns;		/* how long HELLO took to be answered by COOKIE; UINT64_MAX: not known */
	uint64_t asked_ns;		/* when the cookie of our INIT came */
	uint64_t in_doubt_ns;		/* when somebody first said that another incarnation is there; 0: nobody did */
	uint64_t opened_ns;
	uint64_t rtt_ns;		/* OPEN: what our packet and the answer to it took at most; 0: not known */
	uint32_t tries;			/* of the current step */
	uint32_t pace_ns;		/* HELLO and INIT are not repeated sooner; 0: by the first wait alone */
	uint8_t rail;			/* by which COOKIE or INIT came: what answers it leaves there */
	bool by_place;			/* the address has no incarnation: until OPEN, any one at the place is right */
	bool keyless;			/* OPEN, by an INIT: the peer does not know our key */
	bool tx_due;			/* HELLO or INIT wants to leave */
	bool ack_due;			/* INIT_ACK wants to leave */
	uint8_t cookie[UCCL_MAC_LEN];
};

/* The peer's token is known before the connection is open. */
static inline void uccl_conn_token(struct uccl_conn *c, uint64_t token)
{
	c->token_remote = token;
}

/* COOKIE or INIT came by this rail. PROTOCOL R390 */
static inline void uccl_conn_rail(struct uccl_conn *c, uint8_t rail)
{
	c->rail = rail;
}

/* INIT_ACK leaves (again). */
static inline void uccl_conn_ack(struct uccl_conn *c)
{
	c->ack_due = true;
}

/* Nothing leaves any more. */
static inline void uccl_conn_end(struct uccl_conn *c)
{
	c->state = UCCL_CONN_DEAD;
	c->at = UCCL_NEVER;
	c->tx_due = c->ack_due = false;
}

/* Endpoints that one of them tells others of: contexts of a scalable endpoint. Incarnations are in a row. */
struct uccl_port_range {
	uint64_t first;			/* incarnation of at[0] */
	uint32_t n;
	const struct uccl_nic_addr *at;	/* on one NIC */
};

/* The side of an endpoint that answers, without state per peer. */
struct uccl_listener {
	/* With our connect key, mixed with the group's. PROTOCOL R114 */
	struct uccl_addr local;
	uint8_t group[UCCL_KEY_LEN];	/* of those who may connect to each other; 0: all who know a connect key */
	uint8_t secret[UCCL_KEY_LEN];	/* for cookies; random */
	bool two_way;			/* label 0 sends from the port of `local` */
	bool keyless;			/* accept connects that do not know our key; only without security */
	uint8_t rails;			/* label l is of rail l % rails; 0: there are none */
	uint8_t security;		/* enum uccl_security: of our peers, too */
	struct uccl_port_range port_range; /* whom we tell others of; n 0: nobody */
};

/* An INIT or INIT_ACK whose cookie or nonce, source, incarnation and MAC were found right. */
struct uccl_init {
	struct uccl_addr from;		/* as it says; key all zero: it is never on the wire */
	struct uccl_nic_addr at;	/* where it is for us */
	bool translated;		/* INIT: something on the way translated its address, so the two differ */
	struct uccl_nic_addr heard;	/* where it came from: `at`, or its second rail */
	bool second;			/* the latter */
	struct uccl_conn_params params;
	uint64_t token;			/* theirs */
	bool keyless;			/* INIT: its sender does not know our key */
	uint64_t asked_ns; /* its sender lived later than this: INIT: its cookie was made; INIT_ACK: INIT left */
};

/* Mix a group's key into a connect key, which may be none. Both keys are needed to compute the result. */
void uccl_key_mix(uint8_t key[UCCL_KEY_LEN], const uint8_t group[UCCL_KEY_LEN]);

/* `token` and `nonce` are unpredictable and not 0. */
void uccl_conn_init(struct uccl_conn *c, const struct uccl_addr *remote, const struct uccl_conn_params *mine,
		    uint64_t token, uint64_t nonce);
/* Begin to connect, unless begun. */
void uccl_conn_start(struct uccl_conn *c, uint64_t now);
/* Call it after uccl_conn_start: the first HELLO leaves at `at` (ns), no earlier. */
void uccl_conn_delay(struct uccl_conn *c, uint64_t at);
/* From now on nothing is repeated before `ns` have passed, UCCL_CONN_PACE_MAX_NS at most. PROTOCOL R416 */
#define UCCL_CONN_PACE_MAX_NS (100 * UCCL_NS_PER_MS)
static inline void uccl_conn_pace(struct uccl_conn *c, uint64_t ns)
{
	c->pace_ns = (uint32_t)uccl_min(ns, UCCL_CONN_PACE_MAX_NS);
}

uint64_t uccl_conn_expiry(const struct uccl_conn *c);
void uccl_conn_expire(struct uccl_conn *c, uint64_t now);
/* Fill the next handshake packet; 0: none is due. tx->payload points to `buf`, UCCL_INIT_MAX bytes. */
int uccl_conn_tx(struct uccl_conn *c, const struct uccl_listener *l, struct uccl_tx *tx, uint8_t *buf, uint64_t now);

/*
 * COOKIE for this connection. UCCL_DROP_STALE: the peer's incarnation is not the one we were told: our peer is gone,
 * and the connection is DEAD. With security that takes two, far apart, and no right one between them: until then
 * UCCL_DROP_COOKIE. A connection by place goes on with the incarnation that answered last.
 */
enum uccl_drop uccl_conn_cookie(struct uccl_conn *c, const struct uccl_hdr *h, uint64_t now);
/*
 * COOKIE of another version for this connection: the peer does not speak ours. UCCL_DROP_VERSION: so it is, and the
 * connection is DEAD. With security that takes two, far apart, and no COOKIE of ours between them.
 */
enum uccl_drop uccl_conn_other_version(struct uccl_conn *c, const struct uccl_hdr *h, uint64_t now);
/*
 * ELSEWHERE for this connection, whose address is indirect: c->remote is where the peer is, and all begins again there.
 */
enum uccl_drop uccl_conn_elsewhere(struct uccl_conn *c, const struct uccl_hdr *h, uint64_t now);
/* A verified INIT or INIT_ACK from this peer: OPEN. Idempotent. UCCL_DROP_STATE: contradicts what we know. */
enum uccl_drop uccl_conn_open(struct uccl_conn *c, const struct uccl_init *init, bool is_ack, uint64_t now);

/*
 * Another connection from the place of `c` was asked for by an INIT or INIT_ACK that was found right, and whose sender
 * lived later than `asked_ns` (uccl_init). True: `c` is history. False: it may be older than `c` and late; if `c` is
 * OPEN it must be refused. If it is not older, its sender asks for a new cookie and comes again.
 */
bool uccl_conn_superseded(const struct uccl_conn *c, uint64_t asked_ns);

/* What HELLO says of its sender's place besides the IP, which is that of the packet. */
void uccl_hello_place(uint8_t rec[UCCL_REC_LEN], const struct uccl_nic_addr *own);
/* The version that the sender of a HELLO speaks; that of the packet may be another one. PROTOCOL R334 */
static inline uint8_t uccl_hello_version(const struct uccl_hdr *h)
{
	return h->version == UCCL_VERSION_FORMER && h->rtype ? h->rtype : h->version;
}
/*
 * Answer a HELLO that came from `src`, by COOKIE or ELSEWHERE: fills hdr of the reply and where it must go.
 * UCCL_DROP_VERSION: likewise, and the sender speaks another version than ours and the former one.
 */
enum uccl_drop uccl_listener_hello(const struct uccl_listener *l, const struct uccl_hdr *h,
				   const struct uccl_nic_addr *src, uint8_t reply[UCCL_HDR_LEN],
				   struct uccl_nic_addr *to, uint64_t now);
/*
 * Check an INIT. UCCL_DROP_SECURITY: all is right but that its sender asks for another security, so that it is to be
 * refused, and may be told.
 */
enum uccl_drop uccl_listener_init(const struct uccl_listener *l, const struct uccl_hdr *h, const uint8_t *payload,
				  const struct uccl_nic_addr *src, struct uccl_init *out, uint64_t now);
/* Check an INIT_ACK (its token was ours); c->remote.key proves that the peer is who the address names. */
enum uccl_drop uccl_conn_check_ack(const struct uccl_conn *c, const struct uccl_listener *l, const struct uccl_hdr *h,
				   const uint8_t *payload, const struct uccl_nic_addr *src, struct uccl_init *out);

#endif
