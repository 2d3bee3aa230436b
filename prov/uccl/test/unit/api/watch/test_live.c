/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/watch/live.h"
#include "engine/observe/snapshot.h"
#include "progress/shm_dir.h"
#include "../../tests.h"

/* This process's files; the name of one of them. */
static int files(char *name, size_t size)
{
	char folder[64], mine[32];
	struct dirent *f;
	int n = 0;
	DIR *d;

	assert_int_equal(uccl_shm_dir_path(folder, sizeof(folder)), 0);
	snprintf(mine, sizeof(mine), "%d.", (int)getpid());
	d = opendir(folder);
	if (!d)
		return 0;
	while ((f = readdir(d)))
		if (!strncmp(f->d_name, mine, strlen(mine))) {
			snprintf(name, size, "%s/%s", folder, f->d_name);
			n++;
		}
	closedir(d);
	return n;
}

/* An endpoint, and its file. */
static void monitored(struct world *w, struct node *n, char *name, size_t size)
{
	setenv("FI_UCCL_MONITOR", "1", 1);
	world_open(w);
	unsetenv("FI_UCCL_MONITOR");
	assert_int_equal(files(name, size), 0);
	node_open(n, w);
	assert_int_equal(files(name, size), 1);
}

TEST(live__snapshot_of_an_endpoint)
{
	char name[400] = "";
	struct uccl_snapshot v;
	struct world w;
	struct node n;
	struct stat st;
	FILE *f;

	monitored(&w, &n, name, sizeof(name));
	assert_int_equal(stat(name, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	f = fopen(name, "rb");
	assert_non_null(f);
	assert_int_equal(fread(&v, sizeof(v), 1, f), 1);
	fclose(f);
	assert_true(v.magic == UCCL_SNAPSHOT_MAGIC);
	assert_int_equal(v.pid, getpid());
	assert_int_equal(v.seq % 2, 0);
	assert_string_equal(v.interface, "lo");
	assert_string_equal(v.backend, "udp");
	node_close(&n);
	assert_int_equal(files(name, sizeof(name)), 0);
	world_close(&w);
}

/* It is written anew while the program drives the endpoint, and not more often than it should. */
TEST(live__refreshed)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fi_cq_tagged_entry e;
	char name[400] = "";
	struct uccl_snapshot v = {0};
	struct world w;
	struct node n;
	uint64_t first;
	FILE *f;

	monitored(&w, &n, name, sizeof(name));
	f = fopen(name, "rb");
	assert_non_null(f);
	setbuf(f, NULL);
	assert_int_equal(fread(&v, sizeof(v), 1, f), 1);
	first = v.at_ns;
	while (v.at_ns == first && uccl_clock() < end) {
		fi_cq_read(n.cq, &e, 1);
		rewind(f);
		assert_int_equal(fread(&v, sizeof(v), 1, f), 1);
	}
	fclose(f);
	assert_true(v.at_ns - first >= 250 * UCCL_NS_PER_MS);
	node_close(&n);
	world_close(&w);
}

/* Somebody cuts the file off, again and again: the program goes on, and the next snapshot is whole. */
TEST(live__cut_off)
{
	struct fi_cq_tagged_entry e;
	char name[400] = "";
	struct uccl_snapshot v = {0};
	uint64_t first = 0, end;
	struct world w;
	struct node n;
	FILE *f;

	monitored(&w, &n, name, sizeof(name));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(truncate(name, i * 100), 0);
		end = uccl_clock() + PATIENCE_NS;
		do {
			fi_cq_read(n.cq, &e, 1);
			f = fopen(name, "rb");
			assert_non_null(f);
			if (fread(&v, sizeof(v), 1, f) != 1)
				v.at_ns = first;
			fclose(f);
		} while (v.at_ns == first && uccl_clock() < end);
		assert_true(v.magic == UCCL_SNAPSHOT_MAGIC && v.at_ns > first && v.pid == getpid());
		first = v.at_ns;
	}
	node_close(&n);
	world_close(&w);
}

TESTS_MAIN
