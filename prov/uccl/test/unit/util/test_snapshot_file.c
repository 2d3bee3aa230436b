/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../engine/snapshots.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "snapshot_file.h"
#include "../tests.h"

/* A snapshot as another process gets it. */
static size_t taken(struct lan *l)
{
	memset(&block, 0, sizeof(block));
	return uccl_engine_snapshot(l->node[0].e, &block.v, sizeof(block), l->now);
}

LAN_TEST(snapshot_check__good, talked(4))
{
	size_t n = taken(l);

	assert_int_equal(block.v.npeers, 3);
	assert_null(snapshot_check(&block.v, n));
	assert_null(snapshot_check(&block.v, sizeof(block)));
}

/* Cut off anywhere. */
LAN_TEST(snapshot_check__short, talked(4))
{
	size_t n = taken(l);

	for (size_t size = 0; size < n; size++) {
		/* Nothing beyond is looked at: it lies at the very end of its memory. */
		uint64_t *copy = malloc((size + 7) / 8 * 8 + 1);

		assert_non_null(copy);
		memcpy(copy, &block, size);
		assert_non_null(snapshot_check((struct uccl_snapshot *)copy, size));
		free(copy);
	}
}

LAN_TEST(snapshot_check__older, talked(2))
{
	size_t n = taken(l);

	block.v.version = UCCL_SNAPSHOT_VERSION - 1;
	assert_string_equal(snapshot_check(&block.v, n), "written by another version of the provider");
	block.v.version = UCCL_SNAPSHOT_VERSION;
	block.v.stats_bytes += 8;
	assert_string_equal(snapshot_check(&block.v, n), "written by another version of the provider");
	block.v.stats_bytes -= 8;
	block.v.magic++;
	assert_string_equal(snapshot_check(&block.v, n), "is no snapshot of an endpoint");
}

#define DAMAGED(field, value)                                                                                          \
	do {                                                                                                           \
		__typeof__(field) was = field;                                                                         \
		field = value;                                                                                         \
		assert_non_null(snapshot_check(&block.v, n));                                                     \
		field = was;                                                                                           \
		assert_null(snapshot_check(&block.v, n));                                                         \
	} while (0)

TEST(snapshot_check__damaged)
{
	struct lan *l = talked(2);
	size_t n = taken(l);
	struct uccl_snapshot_peer *p = (struct uccl_snapshot_peer *)uccl_snapshot_first(&block.v);
	struct uccl_snapshot_path *path = (struct uccl_snapshot_path *)(p + 1);

	DAMAGED(block.v.bytes, block.v.bytes - 8);
	DAMAGED(block.v.bytes, block.v.bytes + 1);
	DAMAGED(block.v.bytes, UINT32_MAX - 7);
	DAMAGED(block.v.bytes, 8);
	DAMAGED(block.v.npeers, 0);
	DAMAGED(block.v.npeers, 2);
	DAMAGED(block.v.npeers, UINT32_MAX);
	DAMAGED(p->npaths, UINT16_MAX);
	DAMAGED(p->npaths, 0);
	DAMAGED(p->state, UCCL_SNAPSHOT_ENDED + 1);
	DAMAGED(p->stall, UCCL_STALL_COUNT);
	DAMAGED(path->state, UCCL_PATH_PROBATION + 1);
	/* Texts without an end, or that would play with a terminal. */
	DAMAGED(block.v.cc[0], '\x1b');
	DAMAGED(block.v.place[0], '\n');
	memset(block.v.interface, 'x', sizeof(block.v.interface));
	assert_string_equal(snapshot_check(&block.v, n), "damaged: a text");
	lan_free(l);
}

LAN_TEST(snapshot_check__noise, talked(3))
{
	size_t n = taken(l);

	for (int i = 0; i < 20000; i++) {
		size_t at = (size_t)uccl_rng_below(&l->rng, n);
		uint8_t *byte = (uint8_t *)&block + at, was = *byte;

		*byte ^= (uint8_t)(1 + uccl_rng_below(&l->rng, 255));
		if (!snapshot_check(&block.v, n))
			assert_int_equal(peers(&block.v), 2);
		*byte = was;
	}
}

static void file_write(int dir, const void *data, size_t len)
{
	int fd = openat(dir, "1.0", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

/* What a file must be like. */
LAN_TEST(snapshot_file_read__files, talked(3))
{
	char path[] = "uccl-snapshot-XXXXXX";
	size_t n = taken(l);
	struct uccl_snapshot *v;
	const char *why;
	int dir;

	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY);
	assert_null(snapshot_file_read(dir, "1.0", &why));
	assert_string_equal(why, "cannot be read");
	/* A longer one may have been there before. */
	file_write(dir, &block, n + 100);
	v = snapshot_file_read(dir, "1.0", &why);
	assert_non_null(v);
	assert_null(why);
	assert_memory_equal(v, &block, n);
	free(v);
	file_write(dir, &block, n - 8);
	assert_null(snapshot_file_read(dir, "1.0", &why));
	assert_string_equal(why, "cut off");
	file_write(dir, &block, 8);
	assert_null(snapshot_file_read(dir, "1.0", &why));
	assert_string_equal(why, "cut off, or always being written");
	block.v.seq++;
	file_write(dir, &block, n);
	assert_null(snapshot_file_read(dir, "1.0", &why));
	assert_string_equal(why, "cut off, or always being written");
	assert_int_equal(symlinkat("1.0", dir, "2.0"), 0);
	assert_null(snapshot_file_read(dir, "2.0", &why));
	assert_string_equal(why, "cannot be read");
	assert_null(snapshot_file_read(dir, ".", &why));
	assert_string_equal(why, "cannot be read");
	unlinkat(dir, "1.0", 0);
	unlinkat(dir, "2.0", 0);
	close(dir);
	rmdir(path);
}

TESTS_MAIN
