/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_judge.h"

#include <math.h>
#include <string.h>

#define LOSS_WARN 0.001
#define LOSS_BAD 0.05
#define REORDER_WARN 0.001
#define TRAIN_WORSE 0.01 /* that much more lost than of single packets is the trains' own */
#define TIME_FAR_US 5000
#define ECN_WARN 0.05

static struct doctor_finding *add(struct doctor_report *r, enum doctor_level level, const char *check, const char *host,
				  int dir)
{
	char subject[DOCTOR_NAME];

	snprintf(subject, sizeof(subject), "%s %.60s", dir ? "from" : "to", host);
	return doctor_add(r, level, "network", check, subject, "%s", "");
}

#define say(f, ...) snprintf((f)->text, sizeof((f)->text), __VA_ARGS__)

void doctor_judge_reach(struct doctor_report *r, const char *host, int dir, int labels, int missing, const char *list,
			uint16_t port)
{
	struct doctor_finding *f = add(r, missing ? DOCTOR_BAD : DOCTOR_OK, "reach", host, dir);

	if (!missing)
		say(f, "UDP packets arrive from all of %d source ports", labels);
	else if (missing == labels)
		say(f, "no UDP packet arrives (to port %u)", port);
	else
		say(f, "from %d of %d source ports no UDP packet arrives (to port %u):%s", missing, labels, port, list);
	if (missing)
		doctor_advise(f, "on %s host and between open UDP for all ports that hosts give out (uccl_doctor "
			      "there, line port-range): nft insert rule inet filter input udp dport FIRST-LAST accept",
			      dir ? "this" : "that");
	doctor_number(f, "ports", labels);
	doctor_number(f, "blocked", missing);
}

void doctor_judge_live(struct doctor_report *r, const char *host, int dir, int err)
{
	struct doctor_finding *f = add(r, err ? DOCTOR_WARN : DOCTOR_OK, "liveness", host, dir);

	if (!err) {
		say(f, "a TCP connection to the port of the UDP socket works");
	} else {
		say(f, "no TCP connection to the port of the UDP socket (%s): the end of a process is noticed late",
		    strerror(err));
		doctor_advise(f, "open TCP for the same ports as UDP, or set FI_UCCL_PEER_TIMEOUT=liveness=0");
	}
	doctor_number(f, "errno", err);
}

void doctor_judge_times(struct doctor_report *r, const char *host, int asked, int n, struct doctor_spread us)
{
	struct doctor_finding *f = add(r, us.median > TIME_FAR_US ? DOCTOR_NOTE : DOCTOR_OK, "round-trip", host, 0);

	if (n)
		say(f, "least %.0f us, median %.0f us, 99th percentile %.0f us; %d of %d answered", us.least, us.median,
		    us.p99, n, asked);
	else
		say(f, "no answer to %d questions", asked);
	if (n && us.median > TIME_FAR_US)
		doctor_advise(f, "the provider is made for one data centre: look whether packets take a detour");
	doctor_number(f, "asked", asked);
	doctor_number(f, "answered", n);
	doctor_number(f, "least_us", us.least);
	doctor_number(f, "median_us", us.median);
	doctor_number(f, "p99_us", us.p99);
}

void doctor_judge_mtu(struct doctor_report *r, const char *host, int dir, uint32_t most, uint32_t passes, uint32_t told,
		      uint32_t headers)
{
	bool known = told && told < most + headers && told <= passes + headers + 8;
	enum doctor_level level = passes >= most ? DOCTOR_OK : passes && known ? DOCTOR_WARN : DOCTOR_BAD;
	struct doctor_finding *f = add(r, level, "path-mtu", host, dir);

	if (passes >= most)
		say(f, "packets of %u bytes arrive, as the interface says", most + headers);
	else if (!passes)
		say(f, "not even packets of 512 bytes arrive");
	else if (known)
		say(f, "the interface says %u bytes, the path carries %u, and routers tell so", most + headers,
		    passes + headers);
	else
		say(f, "the interface says %u bytes, but larger packets than %u vanish without a word", most + headers,
		    passes + headers);
	if (!passes)
		doctor_advise(f, "look for rules that drop UDP by length, and at the MTU of tunnels on the way");
	else if (passes < most)
		doctor_advise(f, "FI_UCCL_MTU=%u on all hosts, or ip link set DEV mtu %u%s", passes, passes + headers,
			      known ? "" : "; and let ICMP \"fragmentation needed\" pass");
	doctor_number(f, "interface_bytes", most + headers);
	doctor_number(f, "path_bytes", passes ? passes + headers : 0);
	doctor_number(f, "told_bytes", told);
}

static double share(uint32_t part, uint32_t of)
{
	return of ? (double)part / of : 0;
}

static uint32_t missing_of(const struct doctor_sent *sent, const struct doctor_tally *t)
{
	return sent->sent > t->received ? sent->sent - t->received : 0;
}

uint32_t doctor_overflowed(const struct doctor_sent *sent, const struct doctor_tally *t)
{
	uint32_t missing = missing_of(sent, t);

	return t->overflowed < missing ? t->overflowed : missing;
}

static uint32_t lost(const struct doctor_sent *sent, const struct doctor_tally *t)
{
	return missing_of(sent, t) - doctor_overflowed(sent, t);
}

double doctor_loss(const struct doctor_sent *sent, const struct doctor_tally *t)
{
	return share(lost(sent, t), sent->sent);
}

void doctor_judge_queue(struct doctor_report *r, const char *host, int dir, uint32_t sent, uint32_t overflowed)
{
	bool many = share(overflowed, sent) > LOSS_WARN;
	enum doctor_level level = many ? DOCTOR_WARN : overflowed ? DOCTOR_NOTE : DOCTOR_OK;
	struct doctor_finding *f = add(r, level, "receive-queue", host, dir);
	const char *whose = dir ? "this" : "that";

	if (overflowed)
		say(f, "%s host's receive queue overflowed: up to %u of %u packets arrived and found no room", whose,
		    overflowed, sent);
	else
		say(f, "%s host's receive queue had room for all packets that arrived", whose);
	if (many)
		doctor_advise(f, "run uccl_doctor alone on %s host and look at receive-buffer (net.core.rmem_max, "
			      "FI_UCCL_BACKEND=udp,rcvbuf=SIZE) and processors, and at what else runs there", whose);
	doctor_number(f, "sent", sent);
	doctor_number(f, "overflowed", overflowed);
}

static void judge_order(struct doctor_report *r, const char *host, int dir, const struct doctor_tally *t)
{
	double part = share(t->reordered, t->received);
	struct doctor_finding *f = add(r, part > REORDER_WARN ? DOCTOR_WARN : DOCTOR_OK, "order", host, dir);

	if (part > REORDER_WARN) {
		say(f, "%.2f %% of the packets of one source port come after later ones", part * 100);
		doctor_advise(f, "let switches choose paths by flow (ports), not by packet; never set "
			      "FI_UCCL_PATHS=order=fifo here");
	} else {
		say(f, "packets of one source port stay in order (%u of %u did not)", t->reordered, t->received);
	}
	doctor_number(f, "reordered", t->reordered);
	doctor_number(f, "received", t->received);
}

void doctor_judge_loss(struct doctor_report *r, const char *host, int dir, const struct doctor_sent *sent,
		       const struct doctor_tally *t)
{
	double part = doctor_loss(sent, t);
	enum doctor_level level = part > LOSS_BAD || t->damaged || !sent->sent ? DOCTOR_BAD :
				  part > LOSS_WARN ? DOCTOR_WARN : DOCTOR_OK;
	struct doctor_finding *f = add(r, level, "loss", host, dir);

	if (!sent->sent)
		say(f, "the kernel sends no packet: %s", strerror((int)sent->error));
	else if (t->damaged)
		say(f, "%u of %u packets arrive with other bytes than were sent", t->damaged, t->received);
	else
		say(f, "%u of %u packets lost (%.2f %%)", lost(sent, t), sent->sent, part * 100);
	if (level != DOCTOR_OK)
		doctor_advise(f, t->damaged ? "look for a broken NIC, cable or offload: ethtool -K DEV rx off tx off" :
			      "look at ethtool -S DEV, the counters of switches, and receive-buffer of both hosts");
	doctor_number(f, "sent", sent->sent);
	doctor_number(f, "lost", lost(sent, t));
	doctor_number(f, "damaged", t->damaged);
	doctor_number(f, "duplicates", t->duplicates);
	doctor_number(f, "overflowed", doctor_overflowed(sent, t));
	if (t->received)
		judge_order(r, host, dir, t);
}

void doctor_judge_trains(struct doctor_report *r, const char *host, int dir, uint32_t train,
			 const struct doctor_sent *sent, const struct doctor_tally *t, double single_loss)
{
	double part = doctor_loss(sent, t), trains = (double)sent->sent / train;
	/* On the same network a whole train may be lost as a single packet is: three standard deviations more. */
	double most = single_loss + TRAIN_WORSE + (trains ? 3 * sqrt(single_loss * (1 - single_loss) / trains) : 0);
	bool refused = !sent->sent && sent->refused, broken = t->damaged || part > most;
	struct doctor_finding *f = add(r, refused ? DOCTOR_WARN : broken ? DOCTOR_BAD : DOCTOR_OK, "trains", host, dir);

	if (refused)
		say(f, "the kernel refuses trains (%s): every packet costs a call", strerror((int)sent->error));
	else if (t->damaged)
		say(f, "%u of %u packets sent in trains of %u arrive with other bytes", t->damaged, t->received, train);
	else if (broken)
		say(f, "of packets in trains of %u, %.2f %% are lost, of single ones %.2f %%: trains break on the way",
		    train, part * 100, single_loss * 100);
	else
		say(f, "packets in trains of %u arrive whole, as single ones do (%.2f %% lost)", train, part * 100);
	if (refused || broken)
		doctor_advise(f, "on the sending host: ethtool -K DEV tx-udp-segmentation off; or another kernel");
	doctor_number(f, "train", train);
	doctor_number(f, "sent", sent->sent);
	doctor_number(f, "lost", lost(sent, t));
	doctor_number(f, "damaged", t->damaged);
	doctor_number(f, "single_loss", single_loss);
	doctor_number(f, "overflowed", doctor_overflowed(sent, t));
}

void doctor_judge_rate(struct doctor_report *r, const char *host, int dir, uint32_t size,
		       const struct doctor_sent *sent, const struct doctor_tally *t)
{
	/* A receiver that wakes late takes what has queued up faster than it came. */
	double us = fmax(t->span_us, sent->span_us), bps = us > 0 ? (double)t->received * size * 8e6 / us : 0;
	struct doctor_finding *f;

	if (!t->received || us <= 0)
		return;
	f = add(r, DOCTOR_OK, "bandwidth", host, dir);
	say(f, "one sender's burst of %.1f MB arrives at %.3f Gbit/s", (double)t->received * size / 1e6, bps / 1e9);
	doctor_number(f, "bits_per_s", bps);
	doctor_number(f, "received", t->received);
}

void doctor_judge_ecn(struct doctor_report *r, const char *host, int dir, const struct doctor_tally *t)
{
	uint32_t kept = t->ecn[2] + t->ecn[3];
	bool cleared = share(t->received - kept, t->received) > ECN_WARN;
	struct doctor_finding *f;

	if (!t->received)
		return;
	f = add(r, cleared ? DOCTOR_WARN : t->ecn[3] ? DOCTOR_NOTE : DOCTOR_OK, "ecn", host, dir);
	if (cleared) {
		say(f, "of %u packets with the mark ECT(0), %u arrive without: switches cannot tell of congestion",
		    t->received, t->received - kept);
		doctor_advise(f, "let routers and firewalls keep the two ECN bits (DSCP rules are for six bits)");
	} else if (t->ecn[3]) {
		say(f, "marks survive; %u of %u packets met congestion (CE)", t->ecn[3], t->received);
	} else {
		say(f, "marks survive on %u packets", kept);
	}
	doctor_number(f, "not_ect", t->ecn[0]);
	doctor_number(f, "ect1", t->ecn[1]);
	doctor_number(f, "ect0", t->ecn[2]);
	doctor_number(f, "ce", t->ecn[3]);
}

/* How many different first hops are known. */
static int first_hops(const struct doctor_paths *p)
{
	int n = 0;

	for (int i = 0; i < p->n; i++) {
		bool old = !p->trail[i].n || !p->trail[i].hop[0];

		for (int k = 0; k < i && !old; k++)
			old = p->trail[k].n && p->trail[k].hop[0] == p->trail[i].hop[0];
		n += !old;
	}
	return n;
}

void doctor_judge_paths(struct doctor_report *r, const char *host, int dir, const struct doctor_paths *p, int expect)
{
	struct doctor_variety v = doctor_variety(p->trail, p->n);
	int first = first_hops(p);
	bool stuck = p->next_hops > 1 && first == 1 && p->n >= 4, few = expect && v.complete && v.distinct < expect;
	enum doctor_level level = stuck || few ? DOCTOR_WARN : v.complete ? DOCTOR_OK : DOCTOR_NOTE;
	struct doctor_finding *f = add(r, level, "paths", host, dir);

	if (stuck)
		say(f, "the route has %u next hops, but packets of all %u source ports take one", p->next_hops, p->n);
	else if (v.nothing)
		say(f, "not known: no router answers");
	else if (!v.complete)
		say(f, "%u source ports take at least %d different paths; more is not known: routers do not answer",
		    p->n, v.distinct);
	else
		say(f, "%u source ports take %d different path%s", p->n, v.distinct, v.distinct == 1 ? "" : "s");
	if (stuck)
		doctor_advise(f, "on %s host: sysctl -w net.ipv4.fib_multipath_hash_policy=1 "
			      "net.ipv6.fib_multipath_hash_policy=1", dir ? "that" : "this");
	else if (few)
		doctor_advise(f, "%d were expected: let routers and switches hash on UDP ports as well (layer 3+4)",
			      expect);
	doctor_number(f, "source_ports", p->n);
	doctor_number(f, "distinct", v.distinct);
	doctor_number(f, "complete", v.complete);
	doctor_number(f, "next_hops", p->next_hops);
	doctor_number(f, "first_hops", first);
}
