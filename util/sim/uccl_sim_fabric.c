/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* uccl_sim fabric: scenes on a simulated data-centre network. */
#include "uccl_sim_fabric.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/fabric_play.h"
#include "uccl_sim_seeds.h"

/* Of one run. */
#define SEEDS_MAX 1000

static void usage(void)
{
	puts("usage: uccl_sim fabric SCENE [NAME=VALUE,...] [--seeds A-B [--jobs N]] [--csv | --json] [--quiet]\n"
	     "       uccl_sim fabric --list | --options\n"
	     "  What runs is what is shipped for sockets, profile=udp: policies, their constants, paths, trains and\n"
	     "  time-outs. profile=verbs is what is shipped for RDMA NICs, profile=lab compares policies alone.\n"
	     "  Sizes may end in k or m (powers of two), chances may be written as 1/256. The table goes to standard\n"
	     "  output and is the same on every machine; progress and what it took go to standard error. With --seeds\n"
	     "  there is a line for each seed, and the median and the worst of all. With --jobs, N seeds at a time\n"
	     "  are run by processes of their own, 0: as many as there are processors; it prints the same.");
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void progress(const struct uccl_fab_scene *s)
{
	static double last;
	uint64_t got = 0;
	double now = seconds();

	if (!isatty(2) || now - last < 0.5)
		return;
	last = now;
	for (uint32_t i = 0; i < s->nops; i++)
		got += s->ops[i].got;
	fprintf(stderr, "\r%10.1f us  %5.1f %%  %u of %u operations  %.1f M events ", (double)uccl_fab_now(s) / 1e3,
		(double)got * 100 / (double)(s->bytes ? s->bytes : 1), s->done, s->nops, (double)s->net.events / 1e6);
}

/* Say what is wrong with a choice of policies. False: nothing is. */
static bool policies_wrong(const struct uccl_fab_play *p)
{
	char why[512];

	for (int kind = 0; kind < UCCL_POLICY_KINDS; kind++)
		if (uccl_policy_values(kind, p->names[1 + kind], NULL, why, sizeof(why))) {
			fprintf(stderr, "%s: %s\n", p->names[1 + kind], why);
			return true;
		}
	return false;
}

/* "A-B". False: it is none. */
static bool read_seeds(const char *text, uint64_t *first, uint64_t *last)
{
	char *end;

	*first = strtoull(text, &end, 10);
	if (end == text || *end != '-')
		return false;
	text = end + 1;
	*last = strtoull(text, &end, 10);
	return end > text && !*end && *first <= *last && *last - *first < SEEDS_MAX;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void figures_print(const char *name, const double v[UCCL_FAB_FIGURES])
{
	printf("%-8s %9.2f %9.2f %10.1f %9.3f %9.3f %9.0f %8.2f %8.2f %9.2f %8.2f\n", name, v[UCCL_FAB_OVER],
	       v[UCCL_FAB_MEDIAN], v[UCCL_FAB_BESIDE], v[UCCL_FAB_LEAST], v[UCCL_FAB_AGAIN], v[UCCL_FAB_DROPPED],
	       v[UCCL_FAB_SLOW50], v[UCCL_FAB_SLOW99], v[UCCL_FAB_SHORT99], v[UCCL_FAB_BOUND]);
}

/* What became of one seed. */
struct outcome {
	bool done; /* the run came to an end, whatever that was */
	int rc;
	double v[UCCL_FAB_FIGURES];
	char broken[sizeof(((struct uccl_fab_play *)0)->why)];
};

/* What is chosen stays chosen. */
static void seed_run(const char *scene, char **sets, uint64_t seed, struct outcome *o)
{
	static struct uccl_fab_play p;

	uccl_fab_play_init(&p, scene);
	for (char **set = sets; *set; set++)
		uccl_fab_play_set(&p, *set);
	p.cfg.seed = seed;
	o->rc = uccl_fab_play_run(&p, NULL);
	if (o->rc)
		snprintf(o->broken, sizeof(o->broken), "%s",
			 p.why[0]	       ? p.why
			 : p.scene.broken[0]   ? p.scene.broken
			 : p.scene.net.events  ? "out of time"
					       : strerror(-o->rc));
	else
		uccl_fab_play_figures(&p, o->v);
	uccl_fab_play_close(&p);
	o->done = true;
}

/* Those that are known and have not been printed, in the order of seeds. */
static void seeds_print(const struct outcome *o, uint64_t first, uint64_t n, uint64_t *printed)
{
	for (; *printed < n && o[*printed].done; ++*printed) {
		char name[32];

		snprintf(name, sizeof(name), "%llu", (unsigned long long)(first + *printed));
		if (o[*printed].rc)
			printf("%-8s NOT FINISHED: %s\n", name, o[*printed].broken);
		else
			figures_print(name, o[*printed].v);
	}
	fflush(stdout);
}

/* One that ended has said what became of it, or it was killed. False: there is none. */
static bool job_end(struct outcome *o, const pid_t *pids, uint64_t begun)
{
	int status;
	pid_t pid = wait(&status);

	for (uint64_t i = 0; i < begun; i++) {
		if (pids[i] != pid || o[i].done)
			continue;
		o[i].rc = -ECHILD;
		snprintf(o[i].broken, sizeof(o[i].broken), "its process ended by %s",
			 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "itself");
		o[i].done = true;
	}
	return pid > 0;
}

/* A run is a function of its seed, so it matters to nothing but the time who makes it, and when. */
static bool seeds_run(const char *scene, char **sets, uint64_t first, uint64_t n, uint64_t jobs, struct outcome *o)
{
	pid_t pids[SEEDS_MAX];
	uint64_t begun = 0, ended = 0, printed = 0;

	while (ended < n) {
		if (jobs == 1) {
			seed_run(scene, sets, first + ended, &o[ended]);
			ended++;
		} else if (begun < n && begun - ended < jobs) {
			pids[begun] = fork();
			if (!pids[begun]) {
				seed_run(scene, sets, first + begun, &o[begun]);
				_exit(0);
			}
			if (pids[begun] > 0)
				begun++;
			else if (begun == ended || !job_end(o, pids, begun))
				return false;
			else
				ended++;
		} else if (job_end(o, pids, begun)) {
			ended++;
		} else {
			return false;
		}
		seeds_print(o, first, n, &printed);
	}
	return true;
}

/* The same scene with many seeds. */
static int run_seeds(const char *scene, char **sets, uint64_t first, uint64_t last, uint64_t jobs)
{
	uint64_t n = last - first + 1, done = 0;
	double mid[UCCL_FAB_FIGURES], worst[UCCL_FAB_FIGURES], v[SEEDS_MAX];
	/* Processes of their own write into it, too. */
	struct outcome *o = mmap(NULL, n * sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (o == MAP_FAILED) {
		perror("--seeds");
		return 1;
	}
	printf("%-8s %9s %9s %10s %9s %9s %9s %8s %8s %9s %8s\n", "seed", "over %", "p50 %", "beside us", "least",
	       "again %", "dropped", "slow p50", "slow p99", "short p99", "bound %");
	fflush(stdout);
	if (!seeds_run(scene, sets, first, n, jobs, o)) {
		perror("--jobs");
		return 1;
	}
	for (int k = 0; k < UCCL_FAB_FIGURES; k++) {
		done = 0;
		for (uint64_t i = 0; i < n; i++)
			if (!o[i].rc)
				v[done++] = o[i].v[k];
		if (!done)
			break;
		qsort(v, done, sizeof(double), by_size);
		mid[k] = (v[(done - 1) / 2] + v[done / 2]) / 2;
		worst[k] = v[k == UCCL_FAB_LEAST ? 0 : done - 1];
	}
	if (done) {
		figures_print("median", mid);
		figures_print("worst", worst);
	}
	munmap(o, n * sizeof(*o));
	return done < n;
}

/* Set NAME=VALUE,...; false: one of them is wrong, and a line names it. */
static bool set_all(struct uccl_fab_play *p, const char *text)
{
	char one[256];

	for (size_t len; *text; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		snprintf(one, sizeof(one), "%.*s", (int)len, text);
		if (len >= sizeof(one) || uccl_fab_play_set(p, one)) {
			fprintf(stderr, "uccl_sim: no such option, or a value out of range: %s; --options shows them\n",
				one);
			return false;
		}
	}
	return true;
}

int uccl_sim_fabric(int argc, char **argv)
{
	static const struct option longs[] = {
		{"csv", no_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"quiet", no_argument, NULL, 'q'},
		{"seeds", required_argument, NULL, 's'},
		{"jobs", required_argument, NULL, 'J'},
		{"options", no_argument, NULL, 'o'},
		{"list", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static struct uccl_fab_play p;
	bool csv = false, json = false, quiet = false;
	uint64_t first = 1, last = 0, jobs = 1;
	struct rusage use;
	const char *useless;
	char **sets, *scene;
	double began;
	int c, rc;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		csv |= c == 'c';
		json |= c == 'j';
		quiet |= c == 'q';
		if (c == 's' && !read_seeds(optarg, &first, &last)) {
			fprintf(stderr, "--seeds %s: two numbers, the second not less and less than %d more\n", optarg,
				SEEDS_MAX);
			return 2;
		}
		if (c == 'J' && !uccl_sim_jobs_read(optarg, &jobs)) {
			fprintf(stderr, "--jobs %s: a number up to %d\n", optarg, UCCL_SIM_JOBS_MAX);
			return 2;
		}
		if (c == 'o') {
			uccl_fab_play_options(stdout);
			return 0;
		}
		for (int i = 0; c == 'l' && uccl_fab_plays[i][0]; i++)
			printf("  %-14s %s\n", uccl_fab_plays[i][0], uccl_fab_plays[i][1]);
		if (c == 'l')
			return 0;
		if (c == 'h' || c == '?') {
			usage();
			return c == 'h' ? 0 : 2;
		}
	}
	if (optind == argc || uccl_fab_play_init(&p, argv[optind])) {
		usage();
		return 2;
	}
	scene = argv[optind];
	sets = argv + optind + 1;
	while (++optind < argc)
		if (!set_all(&p, argv[optind]))
			return 2;
	if (policies_wrong(&p))
		return 2;
	if (uccl_fab_play_unfit(&p, stderr))
		return 2;
	useless = uccl_fab_play_useless(&p);
	if (useless) {
		fprintf(stderr, "%s changes nothing: the scene has no use for it, or it goes with another option\n",
			useless);
		return 2;
	}
	if (first <= last && p.look.file[0]) {
		fputs("trace is for one seed\n", stderr);
		return 2;
	}
	if (first <= last)
		return run_seeds(scene, sets, first, last, jobs);
	if (jobs != 1) {
		fputs("--jobs is for --seeds\n", stderr);
		return 2;
	}
	began = seconds();
	rc = uccl_fab_play_run(&p, quiet ? NULL : progress);
	if (rc && !p.scene.net.events) {
		if (p.why[0])
			fprintf(stderr, "%s\n", p.why);
		else
			fprintf(stderr, "these options cannot be used together: %s\n", strerror(-rc));
		uccl_fab_play_close(&p);
		return 2;
	}
	began = seconds() - began;
	getrusage(RUSAGE_SELF, &use);
	if (!quiet)
		fprintf(stderr, "%s%.1f s, %.1f M events, %.2f M events/s, %ld MB, %u flows of %llu B\n",
			isatty(2) ? "\r" : "", began, (double)p.scene.net.events / 1e6,
			(double)p.scene.net.events / 1e6 / began, use.ru_maxrss / 1024, p.scene.flows,
			(unsigned long long)p.scene.flow_bytes);
	if (csv)
		uccl_fab_play_csv(&p, stdout, true);
	else if (json)
		uccl_fab_play_json(&p, stdout);
	else
		uccl_fab_play_table(&p, stdout);
	uccl_fab_play_close(&p);
	return rc != 0;
}
