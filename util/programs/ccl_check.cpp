// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A checked program for oneCCL on processors: sums, exchanges of all with all, gathers and broadcasts of several sizes. Each
// rank has its number in PMI_RANK and the count in PMI_SIZE, as mpiexec sets them. Rank 0 leaves the address of the job in a
// file, where the others find it. Rank 0 prints "result check ok" when every number is right.
//
//	ccl_check FILE

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "oneapi/ccl.hpp"

static int number(const char *name)
{
	const char *text = getenv(name);

	if (!text) {
		fprintf(stderr, "ccl_check: %s is not set\n", name);
		exit(2);
	}
	return atoi(text);
}

// Make or find the job's address. The file is complete when it has its name.
static void address_share(const std::string &file, ccl::shared_ptr_class<ccl::kvs> &kvs, int rank)
{
	ccl::kvs::address_type address;

	if (!rank) {
		kvs = ccl::create_main_kvs();
		address = kvs->get_address();
		std::ofstream(file + ".new", std::ios::binary).write((const char *)address.data(), (long)address.size());
		rename((file + ".new").c_str(), file.c_str());
		return;
	}
	while (access(file.c_str(), R_OK))
		usleep(10000);
	std::ifstream(file, std::ios::binary).read((char *)address.data(), (long)address.size());
	kvs = ccl::create_kvs(address);
}

static void check(bool right, const char *what, size_t n, int rank)
{
	if (right)
		return;
	fprintf(stderr, "rank %d: %s of %zu numbers is wrong\n", rank, what, n);
	exit(1);
}

// What rank `from` gives at place i of its part for rank `to`; floats of this size are exact.
static float given(int from, int to, size_t i)
{
	return (float)(from * 1000 + to * 100 + (int)(i % 97));
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {1, 100, 4096, 65536, 1 << 20};
	ccl::shared_ptr_class<ccl::kvs> kvs;
	int rank = number("PMI_RANK"), ranks = number("PMI_SIZE");

	if (argc != 2) {
		fprintf(stderr, "usage: ccl_check FILE\n");
		return 2;
	}
	ccl::init();
	address_share(argv[1], kvs, rank);
	ccl::communicator comm = ccl::create_communicator(ranks, rank, kvs);

	for (size_t n : sizes) {
		std::vector<float> mine(n), sum(n);
		float base = 0;

		for (int r = 0; r < ranks; r++)
			base += given(r, 0, 0);
		for (size_t i = 0; i < n; i++)
			mine[i] = given(rank, 0, i);
		ccl::allreduce(mine.data(), sum.data(), n, ccl::reduction::sum, comm).wait();
		for (size_t i = 0; i < n; i++)
			check(sum[i] == base + (float)ranks * (float)(i % 97), "a sum", n, rank);

		std::vector<float> out(n * (size_t)ranks), in(n * (size_t)ranks);

		for (size_t i = 0; i < out.size(); i++)
			out[i] = given(rank, (int)(i / n), i % n);
		ccl::alltoall(out.data(), in.data(), n, comm).wait();
		for (size_t i = 0; i < in.size(); i++)
			check(in[i] == given((int)(i / n), rank, i % n), "an exchange", n, rank);

		std::vector<size_t> counts((size_t)ranks, n);

		ccl::allgatherv(mine.data(), n, in.data(), counts, comm).wait();
		for (size_t i = 0; i < in.size(); i++)
			check(in[i] == given((int)(i / n), 0, i % n), "a gather", n, rank);

		ccl::broadcast(mine.data(), n, 0, comm).wait();
		for (size_t i = 0; i < n; i++)
			check(mine[i] == given(0, 0, i), "a broadcast", n, rank);
	}
	ccl::barrier(comm);
	if (!rank)
		printf("result check ok ranks=%d\n", ranks);
	return 0;
}
