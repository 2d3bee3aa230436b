# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# What MPI programs read, and whether what they said is right: shared by campaign and roce-campaign (sourced, bash). All of it is
# in the folder of a run, the output in its file `out`. The sizes are the caller's: inside a machine that is emulated they
# are small.

# mpi_ring and mpi_check.py compare every byte, and say so.
result_right() { grep -q '^result check ok' out; }

# hpcc_input RANKS N NB: problem and blocks of LINPACK, on a grid of all ranks that is as square as powers of two make it
hpcc_input() {
	local p=1 q=$1
	while [ $((p * 2)) -le $((q / 2)) ]; do p=$((p * 2)) q=$((q / 2)); done
	awk -v p=$p -v q=$q -v n="$2" -v nb="$3" '
		NR == 6 { print n, "Ns"; next }
		NR == 8 { print nb, "NBs"; next }
		NR == 11 { print p, "Ps"; next }
		NR == 12 { print q, "Qs"; next }
		{ print }' /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt
}
hpcc_right() { grep -q '^Success=1' hpccoutf.txt && ! grep -q FAILED hpccoutf.txt; }

# netpipe_right BYTES: with integrity check, up to so many. The last size but one is a byte more than three quarters of it.
netpipe_right() { ! grep -qiE 'integrity check failed|error' out && grep -q "$(($1 / 4 * 3 + 1)) bytes.*passed" out; }

# lammps_input CELLS STEPS: a Lennard-Jones melt, which tells its thermodynamic state eleven times
lammps_input() {
	cat >in.melt <<-MELT
		units lj
		atom_style atomic
		lattice fcc 0.8442
		region box block 0 $1 0 $1 0 $1
		create_box 1 box
		create_atoms 1 box
		mass 1 1.0
		velocity all create 1.44 87287 loop geom
		pair_style lj/cut 2.5
		pair_coeff 1 1 1.0 1.0 2.5
		neighbor 0.3 bin
		neigh_modify every 5 delay 0 check yes
		fix 1 all nve
		thermo $(($2 / 10))
		run $2
	MELT
}
thermo() { awk '/^Loop time/ { on = 0 } on && /^ *[0-9]/; /^Step/ { on = 1 }' "$1"; }
# lammps_right OUTPUT: the same states as those in the output of a run over another provider; empty: this is that run
lammps_right() { [ "$(thermo out | wc -l)" = 11 ] && { [ -z "$1" ] || [ "$(thermo out)" = "$(thermo "$1")" ]; }; }
