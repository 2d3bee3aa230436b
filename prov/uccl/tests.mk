# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# The lists between the two marks are written by contrib/check-sources --update.
# BEGIN LISTS
uccl_sim_sources = \
	prov/uccl/src/sim/aborted.c \
	prov/uccl/src/sim/aborted.h \
	prov/uccl/src/sim/buffer.c \
	prov/uccl/src/sim/buffer.h \
	prov/uccl/src/sim/check.c \
	prov/uccl/src/sim/check.h \
	prov/uccl/src/sim/fabric.c \
	prov/uccl/src/sim/fabric.h \
	prov/uccl/src/sim/fabric_base.c \
	prov/uccl/src/sim/fabric_flow.c \
	prov/uccl/src/sim/fabric_limit.c \
	prov/uccl/src/sim/fabric_limit.h \
	prov/uccl/src/sim/fabric_load.c \
	prov/uccl/src/sim/fabric_load.h \
	prov/uccl/src/sim/fabric_memory.c \
	prov/uccl/src/sim/fabric_memory.h \
	prov/uccl/src/sim/fabric_play.c \
	prov/uccl/src/sim/fabric_play.h \
	prov/uccl/src/sim/fabric_queue.c \
	prov/uccl/src/sim/fabric_queue.h \
	prov/uccl/src/sim/fabric_report.c \
	prov/uccl/src/sim/fabric_scene.c \
	prov/uccl/src/sim/fabric_scene.h \
	prov/uccl/src/sim/fabric_script.c \
	prov/uccl/src/sim/fabric_script.h \
	prov/uccl/src/sim/fabric_sizes.c \
	prov/uccl/src/sim/fabric_sizes.h \
	prov/uccl/src/sim/fabric_stacks.h \
	prov/uccl/src/sim/fabric_trace.c \
	prov/uccl/src/sim/fabric_trace.h \
	prov/uccl/src/sim/invariant.c \
	prov/uccl/src/sim/invariant.h \
	prov/uccl/src/sim/life.c \
	prov/uccl/src/sim/life.h \
	prov/uccl/src/sim/net.c \
	prov/uccl/src/sim/net.h \
	prov/uccl/src/sim/nic_sim.c \
	prov/uccl/src/sim/nic_sim.h \
	prov/uccl/src/sim/options.c \
	prov/uccl/src/sim/options.h \
	prov/uccl/src/sim/owner.c \
	prov/uccl/src/sim/owner.h \
	prov/uccl/src/sim/remote.c \
	prov/uccl/src/sim/remote.h \
	prov/uccl/src/sim/scenario.c \
	prov/uccl/src/sim/scenario.h \
	prov/uccl/src/sim/scene.h \
	prov/uccl/src/sim/state.h \
	prov/uccl/src/sim/stories.c \
	prov/uccl/src/sim/stories.h \
	prov/uccl/src/sim/work.c \
	prov/uccl/src/sim/work.h \
	prov/uccl/src/sim/world.c \
	prov/uccl/src/sim/world.h

uccl_unit_tests = \
	prov/uccl/test/unit/api/endpoint/test_cm \
	prov/uccl/test/unit/api/endpoint/test_ep \
	prov/uccl/test/unit/api/endpoint/test_openops \
	prov/uccl/test/unit/api/endpoint/test_pep \
	prov/uccl/test/unit/api/endpoint/test_sep \
	prov/uccl/test/unit/api/endpoint/test_shared \
	prov/uccl/test/unit/api/event/test_cntr \
	prov/uccl/test/unit/api/event/test_cq \
	prov/uccl/test/unit/api/event/test_eq \
	prov/uccl/test/unit/api/event/test_poll \
	prov/uccl/test/unit/api/event/test_waitobj \
	prov/uccl/test/unit/api/event/test_waitset \
	prov/uccl/test/unit/api/lib/test_lib \
	prov/uccl/test/unit/api/lib/test_notice \
	prov/uccl/test/unit/api/memory/test_device \
	prov/uccl/test/unit/api/memory/test_mr \
	prov/uccl/test/unit/api/memory/test_revoke \
	prov/uccl/test/unit/api/object/test_trigger \
	prov/uccl/test/unit/api/offer/test_address \
	prov/uccl/test/unit/api/offer/test_asked \
	prov/uccl/test/unit/api/offer/test_hwloc \
	prov/uccl/test/unit/api/offer/test_joined \
	prov/uccl/test/unit/api/offer/test_named \
	prov/uccl/test/unit/api/offer/test_near \
	prov/uccl/test/unit/api/offer/test_nicattr \
	prov/uccl/test/unit/api/offer/test_nicnames \
	prov/uccl/test/unit/api/offer/test_order \
	prov/uccl/test/unit/api/offer/test_param \
	prov/uccl/test/unit/api/offer/test_param_names \
	prov/uccl/test/unit/api/offer/test_persona \
	prov/uccl/test/unit/api/offer/test_refusal \
	prov/uccl/test/unit/api/offer/test_sysfs \
	prov/uccl/test/unit/api/peers/test_av \
	prov/uccl/test/unit/api/peers/test_avset \
	prov/uccl/test/unit/api/peers/test_lookup \
	prov/uccl/test/unit/api/test_info \
	prov/uccl/test/unit/api/transfer/test_atomic \
	prov/uccl/test/unit/api/transfer/test_coll \
	prov/uccl/test/unit/api/transfer/test_flags \
	prov/uccl/test/unit/api/transfer/test_request \
	prov/uccl/test/unit/api/transfer/test_rma \
	prov/uccl/test/unit/api/transfer/test_trigger \
	prov/uccl/test/unit/api/watch/test_live \
	prov/uccl/test/unit/api/watch/test_process \
	prov/uccl/test/unit/api/watch/test_stats \
	prov/uccl/test/unit/api/watch/test_tracefile \
	prov/uccl/test/unit/base/test_buf_cache \
	prov/uccl/test/unit/base/test_defaults \
	prov/uccl/test/unit/base/test_heap \
	prov/uccl/test/unit/base/test_ids \
	prov/uccl/test/unit/base/test_keyvalue \
	prov/uccl/test/unit/base/test_le \
	prov/uccl/test/unit/base/test_load_table \
	prov/uccl/test/unit/base/test_log \
	prov/uccl/test/unit/base/test_mac \
	prov/uccl/test/unit/base/test_mailbox \
	prov/uccl/test/unit/base/test_multimap \
	prov/uccl/test/unit/base/test_pause \
	prov/uccl/test/unit/base/test_pool \
	prov/uccl/test/unit/base/test_prefetch \
	prov/uccl/test/unit/base/test_range_set \
	prov/uccl/test/unit/base/test_rng \
	prov/uccl/test/unit/base/test_seq \
	prov/uccl/test/unit/base/test_slot_unit \
	prov/uccl/test/unit/engine/conn/test_conn_slots \
	prov/uccl/test/unit/engine/conn/test_conn_state \
	prov/uccl/test/unit/engine/conn/test_conn_table \
	prov/uccl/test/unit/engine/conn/test_drain \
	prov/uccl/test/unit/engine/conn/test_handshake \
	prov/uccl/test/unit/engine/conn/test_liveness \
	prov/uccl/test/unit/engine/conn/test_open \
	prov/uccl/test/unit/engine/conn/test_silence \
	prov/uccl/test/unit/engine/loop/test_calls \
	prov/uccl/test/unit/engine/loop/test_engine_rx \
	prov/uccl/test/unit/engine/loop/test_engine_tx \
	prov/uccl/test/unit/engine/loop/test_msg_ops \
	prov/uccl/test/unit/engine/loop/test_poll \
	prov/uccl/test/unit/engine/observe/test_peer_log \
	prov/uccl/test/unit/engine/observe/test_report \
	prov/uccl/test/unit/engine/observe/test_snapshot \
	prov/uccl/test/unit/engine/test_allocs \
	prov/uccl/test/unit/engine/test_config \
	prov/uccl/test/unit/engine/test_engine \
	prov/uccl/test/unit/engine/test_engine_verbs \
	prov/uccl/test/unit/engine/test_group \
	prov/uccl/test/unit/engine/test_hostile \
	prov/uccl/test/unit/engine/test_nomem \
	prov/uccl/test/unit/engine/test_security \
	prov/uccl/test/unit/flow/ack/test_ack \
	prov/uccl/test/unit/flow/ack/test_ack_delay \
	prov/uccl/test/unit/flow/ack/test_ack_tracker \
	prov/uccl/test/unit/flow/ack/test_persistent_loss \
	prov/uccl/test/unit/flow/ack/test_pto \
	prov/uccl/test/unit/flow/ack/test_rack \
	prov/uccl/test/unit/flow/ack/test_rate \
	prov/uccl/test/unit/flow/ack/test_reverse_gap \
	prov/uccl/test/unit/flow/ack/test_spread \
	prov/uccl/test/unit/flow/ack/test_times \
	prov/uccl/test/unit/flow/observe/test_stall \
	prov/uccl/test/unit/flow/observe/test_stats \
	prov/uccl/test/unit/flow/observe/test_trace \
	prov/uccl/test/unit/flow/path/test_path \
	prov/uccl/test/unit/flow/path/test_paths \
	prov/uccl/test/unit/flow/path/test_pmtu \
	prov/uccl/test/unit/flow/path/test_tuples \
	prov/uccl/test/unit/flow/recv/test_arrived \
	prov/uccl/test/unit/flow/recv/test_flow_rx \
	prov/uccl/test/unit/flow/recv/test_segment_rx \
	prov/uccl/test/unit/flow/recv/test_slots \
	prov/uccl/test/unit/flow/recv/test_subsegments \
	prov/uccl/test/unit/flow/send/test_chunk \
	prov/uccl/test/unit/flow/send/test_credit \
	prov/uccl/test/unit/flow/send/test_flow_tx \
	prov/uccl/test/unit/flow/send/test_pacer \
	prov/uccl/test/unit/flow/send/test_peer_limits \
	prov/uccl/test/unit/flow/send/test_sendq \
	prov/uccl/test/unit/flow/send/test_sent \
	prov/uccl/test/unit/flow/send/test_train \
	prov/uccl/test/unit/flow/send/test_train_wait \
	prov/uccl/test/unit/flow/send/test_tx_again \
	prov/uccl/test/unit/flow/send/test_tx_chunk \
	prov/uccl/test/unit/flow/send/test_tx_credit \
	prov/uccl/test/unit/flow/send/test_tx_new \
	prov/uccl/test/unit/flow/send/test_tx_packet \
	prov/uccl/test/unit/flow/send/test_tx_place \
	prov/uccl/test/unit/flow/test_ack_ride \
	prov/uccl/test/unit/flow/test_closing \
	prov/uccl/test/unit/flow/test_conn_bfs \
	prov/uccl/test/unit/flow/test_events \
	prov/uccl/test/unit/flow/test_flow_setup \
	prov/uccl/test/unit/flow/test_segment_map \
	prov/uccl/test/unit/flow/test_slots_bfs \
	prov/uccl/test/unit/flow/test_subsegment_flow \
	prov/uccl/test/unit/flow/wire/test_addr \
	prov/uccl/test/unit/flow/wire/test_conn \
	prov/uccl/test/unit/flow/wire/test_name \
	prov/uccl/test/unit/flow/wire/test_seal \
	prov/uccl/test/unit/flow/wire/test_wire \
	prov/uccl/test/unit/flow/write/test_direct \
	prov/uccl/test/unit/flow/write/test_tx_write \
	prov/uccl/test/unit/flow/write/test_write_rx \
	prov/uccl/test/unit/flow/write/test_write_tx \
	prov/uccl/test/unit/hmem/test_cuda \
	prov/uccl/test/unit/hmem/test_dmabufs \
	prov/uccl/test/unit/hmem/test_hmem \
	prov/uccl/test/unit/hmem/test_scatter_ptx \
	prov/uccl/test/unit/hmem/test_stage \
	prov/uccl/test/unit/msg/collective/test_schedule \
	prov/uccl/test/unit/msg/device/test_copy \
	prov/uccl/test/unit/msg/device/test_pump \
	prov/uccl/test/unit/msg/recv/test_match \
	prov/uccl/test/unit/msg/recv/test_msg_rx \
	prov/uccl/test/unit/msg/recv/test_placement \
	prov/uccl/test/unit/msg/recv/test_posted \
	prov/uccl/test/unit/msg/recv/test_recv \
	prov/uccl/test/unit/msg/recv/test_unexpected \
	prov/uccl/test/unit/msg/rma/test_atomic_math \
	prov/uccl/test/unit/msg/rma/test_initiator \
	prov/uccl/test/unit/msg/rma/test_region \
	prov/uccl/test/unit/msg/rma/test_reply \
	prov/uccl/test/unit/msg/rma/test_serve \
	prov/uccl/test/unit/msg/rma/test_short_writes \
	prov/uccl/test/unit/msg/send/test_msg_tx \
	prov/uccl/test/unit/msg/send/test_send \
	prov/uccl/test/unit/msg/test_abort \
	prov/uccl/test/unit/msg/test_deliver \
	prov/uccl/test/unit/msg/test_ep_state \
	prov/uccl/test/unit/msg/test_iov \
	prov/uccl/test/unit/nic/fault/test_fault \
	prov/uccl/test/unit/nic/test_gso \
	prov/uccl/test/unit/nic/test_ifaddr \
	prov/uccl/test/unit/nic/test_ifclass \
	prov/uccl/test/unit/nic/test_links \
	prov/uccl/test/unit/nic/test_ownfd \
	prov/uccl/test/unit/nic/test_ports \
	prov/uccl/test/unit/nic/test_rails \
	prov/uccl/test/unit/nic/test_rails_udp \
	prov/uccl/test/unit/nic/test_udp_bare \
	prov/uccl/test/unit/nic/test_udp_live \
	prov/uccl/test/unit/nic/test_verbs_fake \
	prov/uccl/test/unit/nic/udp/test_udp \
	prov/uccl/test/unit/nic/udp/test_udp_handshake \
	prov/uccl/test/unit/nic/verbs/test_mrcache \
	prov/uccl/test/unit/nic/verbs/test_verbs_ah \
	prov/uccl/test/unit/nic/verbs/test_verbs_dev \
	prov/uccl/test/unit/nic/verbs/test_verbs_lib \
	prov/uccl/test/unit/nic/verbs/test_verbs_mw \
	prov/uccl/test/unit/nic/verbs/test_verbs_probe \
	prov/uccl/test/unit/nic/verbs/test_verbs_uc \
	prov/uccl/test/unit/nic/verbs/test_verbs_uc_join \
	prov/uccl/test/unit/nic/verbs/test_verbs_ud \
	prov/uccl/test/unit/nic/verbs/test_verbs_ud_device_rx \
	prov/uccl/test/unit/nic/verbs/test_verbs_ud_event \
	prov/uccl/test/unit/nic/xdp/test_frame \
	prov/uccl/test/unit/nic/xdp/test_routes \
	prov/uccl/test/unit/nic/xdp/test_xdp \
	prov/uccl/test/unit/policy/test_cc_bbr \
	prov/uccl/test/unit/policy/test_cc_cubic \
	prov/uccl/test/unit/policy/test_cc_none \
	prov/uccl/test/unit/policy/test_cc_nscc \
	prov/uccl/test/unit/policy/test_cc_swift \
	prov/uccl/test/unit/policy/test_cc_timely \
	prov/uccl/test/unit/policy/test_credit_auto \
	prov/uccl/test/unit/policy/test_credit_eqds \
	prov/uccl/test/unit/policy/test_credit_none \
	prov/uccl/test/unit/policy/test_credit_srpt \
	prov/uccl/test/unit/policy/test_credit_window \
	prov/uccl/test/unit/policy/test_long_way \
	prov/uccl/test/unit/policy/test_path_hash \
	prov/uccl/test/unit/policy/test_path_pow2 \
	prov/uccl/test/unit/policy/test_path_reps \
	prov/uccl/test/unit/policy/test_path_rr \
	prov/uccl/test/unit/policy/test_share \
	prov/uccl/test/unit/policy/test_table \
	prov/uccl/test/unit/progress/test_driver \
	prov/uccl/test/unit/progress/test_drivers \
	prov/uccl/test/unit/progress/test_idle \
	prov/uccl/test/unit/progress/test_linkshare \
	prov/uccl/test/unit/progress/test_lock \
	prov/uccl/test/unit/progress/test_quota \
	prov/uccl/test/unit/progress/test_ranks \
	prov/uccl/test/unit/progress/test_rescue \
	prov/uccl/test/unit/progress/test_shm_dir \
	prov/uccl/test/unit/progress/test_shm_segment \
	prov/uccl/test/unit/progress/test_silence \
	prov/uccl/test/unit/progress/test_thread \
	prov/uccl/test/unit/progress/test_wait \
	prov/uccl/test/unit/sim/test_check \
	prov/uccl/test/unit/sim/test_fabric \
	prov/uccl/test/unit/sim/test_fabric_base \
	prov/uccl/test/unit/sim/test_fabric_flow \
	prov/uccl/test/unit/sim/test_fabric_limit \
	prov/uccl/test/unit/sim/test_fabric_load \
	prov/uccl/test/unit/sim/test_fabric_memory \
	prov/uccl/test/unit/sim/test_fabric_play \
	prov/uccl/test/unit/sim/test_fabric_queue \
	prov/uccl/test/unit/sim/test_fabric_report \
	prov/uccl/test/unit/sim/test_fabric_scene \
	prov/uccl/test/unit/sim/test_fabric_script \
	prov/uccl/test/unit/sim/test_fabric_sizes \
	prov/uccl/test/unit/sim/test_fabric_trace \
	prov/uccl/test/unit/sim/test_invariant \
	prov/uccl/test/unit/sim/test_net \
	prov/uccl/test/unit/sim/test_nic_sim \
	prov/uccl/test/unit/sim/test_options \
	prov/uccl/test/unit/sim/test_owner \
	prov/uccl/test/unit/util/test_doctor_cloud \
	prov/uccl/test/unit/util/test_doctor_guests \
	prov/uccl/test/unit/util/test_doctor_judge \
	prov/uccl/test/unit/util/test_doctor_math \
	prov/uccl/test/unit/util/test_doctor_nics \
	prov/uccl/test/unit/util/test_doctor_pairs \
	prov/uccl/test/unit/util/test_doctor_report \
	prov/uccl/test/unit/util/test_doctor_variables \
	prov/uccl/test/unit/util/test_doctor_wire \
	prov/uccl/test/unit/util/test_snapshot_file \
	prov/uccl/test/unit/util/test_stall_report

uccl_lane_tests = \
	prov/uccl/test/unit/engine/conn/test_lane_worker \
	prov/uccl/test/unit/lanes/test_lateness \
	prov/uccl/test/unit/lanes/test_reassembly \
	prov/uccl/test/unit/lanes/test_unplaced_data \
	prov/uccl/test/unit/progress/test_lane_set

uccl_sim_tests = \
	prov/uccl/test/sim/test_sim_aborts \
	prov/uccl/test/sim/test_sim_death \
	prov/uccl/test/sim/test_sim_faults \
	prov/uccl/test/sim/test_sim_loss \
	prov/uccl/test/sim/test_sim_seeds \
	prov/uccl/test/sim/test_sim_stories

uccl_test_support = \
	prov/uccl/test/sim/holds.h \
	prov/uccl/test/third_party/cc_dctcp.c \
	prov/uccl/test/third_party/cc_rate.c \
	prov/uccl/test/third_party/credit_smf.c \
	prov/uccl/test/third_party/path_jsq.c \
	prov/uccl/test/unit/api/connected.h \
	prov/uccl/test/unit/api/machine.h \
	prov/uccl/test/unit/api/tree.h \
	prov/uccl/test/unit/api/world.h \
	prov/uccl/test/unit/engine/lan.c \
	prov/uccl/test/unit/engine/lan.h \
	prov/uccl/test/unit/engine/snapshots.h \
	prov/uccl/test/unit/flow/one_pair.h \
	prov/uccl/test/unit/flow/pair.c \
	prov/uccl/test/unit/flow/pair.h \
	prov/uccl/test/unit/flow/sender.h \
	prov/uccl/test/unit/msg/duo.c \
	prov/uccl/test/unit/msg/duo.h \
	prov/uccl/test/unit/nic/fake_impl.h \
	prov/uccl/test/unit/nic/fake_locked.c \
	prov/uccl/test/unit/nic/fake_verbs.c \
	prov/uccl/test/unit/nic/fake_verbs.h \
	prov/uccl/test/unit/nic/fake_wire.c \
	prov/uccl/test/unit/nic/foreign_qp.h \
	prov/uccl/test/unit/nic/sandbox.h \
	prov/uccl/test/unit/nic/two_hosts.h \
	prov/uccl/test/unit/policy/link.h \
	prov/uccl/test/unit/sim/net.h \
	prov/uccl/test/unit/sim/play.h \
	prov/uccl/test/unit/tests.h

uccl_fake_cuda_sources = \
	prov/uccl/test/fake_cuda/fake_cuda.c \
	prov/uccl/test/fake_cuda/fake_cuda.h

uccl_system_sources = \
	prov/uccl/test/system/chaos.c \
	prov/uccl/test/system/chaos.h \
	prov/uccl/test/system/direct.h \
	prov/uccl/test/system/fab.c \
	prov/uccl/test/system/fab.h \
	prov/uccl/test/system/harness.c \
	prov/uccl/test/system/harness.h \
	prov/uccl/test/system/mesh.c \
	prov/uccl/test/system/mesh.h \
	prov/uccl/test/system/sys_close.c \
	prov/uccl/test/system/sys_host.c \
	prov/uccl/test/system/sys_kill.c \
	prov/uccl/test/system/sys_loss.c \
	prov/uccl/test/system/sys_misuse.c \
	prov/uccl/test/system/sys_restart.c \
	prov/uccl/test/system/sys_silence.c \
	prov/uccl/test/system/sys_storm.c \
	prov/uccl/test/system/sys_wire.c \
	prov/uccl/test/system/tap.c \
	prov/uccl/test/system/tap.h

uccl_fuzz_targets = \
	prov/uccl/test/fuzz/fuzz_ack \
	prov/uccl/test/fuzz/fuzz_addr \
	prov/uccl/test/fuzz/fuzz_credit \
	prov/uccl/test/fuzz/fuzz_engine \
	prov/uccl/test/fuzz/fuzz_fault \
	prov/uccl/test/fuzz/fuzz_flow \
	prov/uccl/test/fuzz/fuzz_frame \
	prov/uccl/test/fuzz/fuzz_handshake \
	prov/uccl/test/fuzz/fuzz_match \
	prov/uccl/test/fuzz/fuzz_name \
	prov/uccl/test/fuzz/fuzz_rma \
	prov/uccl/test/fuzz/fuzz_wire

prov_uccl_test_fuzz_fuzz_ack_SOURCES = prov/uccl/test/fuzz/fuzz_ack.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_ack_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_addr_SOURCES = prov/uccl/test/fuzz/fuzz_addr.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_addr_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_credit_SOURCES = prov/uccl/test/fuzz/fuzz_credit.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_credit_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_engine_SOURCES = prov/uccl/test/fuzz/fuzz_engine.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_engine_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_fault_SOURCES = prov/uccl/test/fuzz/fuzz_fault.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_fault_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_flow_SOURCES = prov/uccl/test/fuzz/fuzz_flow.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_flow_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_frame_SOURCES = prov/uccl/test/fuzz/fuzz_frame.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_frame_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_handshake_SOURCES = prov/uccl/test/fuzz/fuzz_handshake.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_handshake_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_match_SOURCES = prov/uccl/test/fuzz/fuzz_match.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_match_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_name_SOURCES = prov/uccl/test/fuzz/fuzz_name.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_name_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_rma_SOURCES = prov/uccl/test/fuzz/fuzz_rma.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_rma_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

prov_uccl_test_fuzz_fuzz_wire_SOURCES = prov/uccl/test/fuzz/fuzz_wire.c $(uccl_fuzz_driver)
prov_uccl_test_fuzz_fuzz_wire_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

uccl_extra_dist = \
	docs/bench.svg \
	docs/fabric.svg \
	docs/protocol/connection.md \
	docs/protocol/credit.md \
	docs/protocol/direct-writes.md \
	docs/protocol/lanes.md \
	docs/protocol/loss.md \
	docs/protocol/messages.md \
	docs/protocol/packets.md \
	docs/protocol/paths.md \
	docs/protocol/security.md \
	docs/protocol/segments.md \
	docs/protocol/tests.md \
	docs/protocol/trains.md \
	docs/results/README.md \
	docs/results/bench.md \
	docs/results/campaign.md \
	docs/results/clients.md \
	docs/results/cloud.md \
	docs/results/fabric.md \
	docs/results/fabtests.md \
	docs/results/groups.md \
	docs/results/nccl.md \
	docs/results/roce.md \
	prov/uccl/test/FAULTS.md \
	prov/uccl/test/MUTATIONS.md \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-01 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-02 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-03 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-04 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-05 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-06 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-07 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-08 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-09 \
	prov/uccl/test/fuzz/corpus/fuzz_ack/found-10 \
	prov/uccl/test/fuzz/corpus/fuzz_addr/good \
	prov/uccl/test/fuzz/corpus/fuzz_addr/keyless \
	prov/uccl/test/fuzz/corpus/fuzz_credit/auto-incast \
	prov/uccl/test/fuzz/corpus/fuzz_credit/auto-lost-credits \
	prov/uccl/test/fuzz/corpus/fuzz_credit/auto-two \
	prov/uccl/test/fuzz/corpus/fuzz_credit/auto-unknown-link \
	prov/uccl/test/fuzz/corpus/fuzz_credit/eqds-incast \
	prov/uccl/test/fuzz/corpus/fuzz_credit/eqds-lost-credits \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-01 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-02 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-03 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-04 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-05 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-06 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-07 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-08 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-09 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-10 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-11 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-12 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/found-13 \
	prov/uccl/test/fuzz/corpus/fuzz_engine/nothing-to-ask-for \
	prov/uccl/test/fuzz/corpus/fuzz_fault/all \
	prov/uccl/test/fuzz/corpus/fuzz_fault/bad \
	prov/uccl/test/fuzz/corpus/fuzz_fault/burst \
	prov/uccl/test/fuzz/corpus/fuzz_fault/drop \
	prov/uccl/test/fuzz/corpus/fuzz_fault/held \
	prov/uccl/test/fuzz/corpus/fuzz_fault/holes \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-01 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-02 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-03 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-04 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-05 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-06 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-07 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-08 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-09 \
	prov/uccl/test/fuzz/corpus/fuzz_flow/found-10 \
	prov/uccl/test/fuzz/corpus/fuzz_handshake/both \
	prov/uccl/test/fuzz/corpus/fuzz_handshake/differs \
	prov/uccl/test/fuzz/corpus/fuzz_handshake/sealed \
	prov/uccl/test/fuzz/corpus/fuzz_handshake/whole \
	prov/uccl/test/fuzz/corpus/fuzz_match/mix-0 \
	prov/uccl/test/fuzz/corpus/fuzz_match/mix-1 \
	prov/uccl/test/fuzz/corpus/fuzz_match/mix-2 \
	prov/uccl/test/fuzz/corpus/fuzz_match/mix-3 \
	prov/uccl/test/fuzz/corpus/fuzz_name/answer \
	prov/uccl/test/fuzz/corpus/fuzz_name/ask \
	prov/uccl/test/fuzz/corpus/fuzz_wire/ack \
	prov/uccl/test/fuzz/corpus/fuzz_wire/ack-block \
	prov/uccl/test/fuzz/corpus/fuzz_wire/address \
	prov/uccl/test/fuzz/corpus/fuzz_wire/chunk-with-ack \
	prov/uccl/test/fuzz/corpus/fuzz_wire/desc \
	prov/uccl/test/fuzz/corpus/fuzz_wire/desc-record \
	prov/uccl/test/fuzz/corpus/fuzz_wire/hello \
	prov/uccl/test/fuzz/corpus/fuzz_wire/hello-former \
	prov/uccl/test/fuzz/corpus/fuzz_wire/sealed \
	prov/uccl/test/golden/alltoall.txt \
	prov/uccl/test/golden/background.txt \
	prov/uccl/test/golden/both.txt \
	prov/uccl/test/golden/cut.txt \
	prov/uccl/test/golden/incast-45.txt \
	prov/uccl/test/golden/incast.txt \
	prov/uccl/test/golden/links.txt \
	prov/uccl/test/golden/loss.txt \
	prov/uccl/test/golden/oversubscribed-long.txt \
	prov/uccl/test/golden/oversubscribed.txt \
	prov/uccl/test/golden/permutation.txt \
	prov/uccl/test/golden/rails.txt \
	prov/uccl/test/golden/ring.txt \
	prov/uccl/test/golden/slow.txt \
	prov/uccl/test/golden/spine.txt \
	prov/uccl/test/golden/split.txt \
	prov/uccl/test/golden/turns.txt

# END LISTS

# The simulator's layer is for tests and tools alone. It needs no test library.
noinst_LTLIBRARIES += libuccl_sim.la
libuccl_sim_la_SOURCES = $(uccl_sim_sources)

# Programs without flags of their own link this. All below is built by `make check` (or by name), never by `make`.
LDADD = libuccl_test.la libuccl_sim.la libuccl_core.la $(CMOCKA_LIBS) $(LIBFABRIC_LIBS)
# It compares with libsodium; the provider loads that library only when keys are wanted.
prov_uccl_test_unit_base_test_mac_LDADD = $(LDADD) $(SODIUM_LIBS)
uccl_test_libraries = libuccl_test.la
libuccl_test_la_SOURCES = $(uccl_test_support)

# Tests begin in the order of this list: first those that take long, so that no processor waits for the last one.
uccl_test_programs = $(uccl_unit_tests) $(uccl_sim_tests)
uccl_tests = $(uccl_sim_tests) $(uccl_slow_tests) $(uccl_unit_tests)
if LANES
uccl_test_programs += $(uccl_lane_tests)
uccl_tests += $(uccl_lane_tests)
endif

# A CUDA driver without a GPU, found under its own name by those that link it, or by LD_LIBRARY_PATH.
uccl_test_libraries += prov/uccl/test/fake_cuda/libcuda.la
prov_uccl_test_fake_cuda_libcuda_la_SOURCES = $(uccl_fake_cuda_sources)
prov_uccl_test_fake_cuda_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -shared -version-info 1:0:0 -rpath /nowhere
uccl_gpu_ldadd = $(LDADD) prov/uccl/test/fake_cuda/libcuda.la
prov_uccl_test_unit_api_memory_test_device_LDADD = $(uccl_gpu_ldadd)
prov_uccl_test_unit_api_transfer_test_coll_LDADD = $(uccl_gpu_ldadd)
prov_uccl_test_unit_engine_test_engine_verbs_LDADD = $(uccl_gpu_ldadd)
prov_uccl_test_unit_hmem_test_cuda_LDADD = $(uccl_gpu_ldadd)
prov_uccl_test_unit_hmem_test_hmem_LDADD = $(uccl_gpu_ldadd)
prov_uccl_test_unit_hmem_test_stage_LDADD = $(uccl_gpu_ldadd)

# What uccl_doctor makes of its findings.
uccl_doctor_ldadd = libuccl_doctor.la $(LDADD) -lm
prov_uccl_test_unit_util_test_doctor_cloud_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_cloud_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_guests_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_guests_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_pairs_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_pairs_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_variables_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_variables_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_judge_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_judge_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_math_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_math_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_nics_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_nics_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_report_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_report_LDADD = $(uccl_doctor_ldadd)
prov_uccl_test_unit_util_test_doctor_wire_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/doctor
prov_uccl_test_unit_util_test_doctor_wire_LDADD = $(uccl_doctor_ldadd)
# What uccl_top makes of snapshots.
uccl_observe_ldadd = libuccl_observe.la $(LDADD) -lm
prov_uccl_test_unit_util_test_snapshot_file_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/observe
prov_uccl_test_unit_util_test_snapshot_file_LDADD = $(uccl_observe_ldadd)
prov_uccl_test_unit_util_test_stall_report_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/util/observe
prov_uccl_test_unit_util_test_stall_report_LDADD = $(uccl_observe_ldadd)

# Fuzz targets: with --enable-fuzz libFuzzer drives them; without it they replay their corpus and a fixed number
# of made-up inputs, as tests.
uccl_test_programs += $(uccl_fuzz_targets)
if FUZZ
uccl_fuzz_driver = prov/uccl/test/fuzz/input.h
else
uccl_fuzz_driver = prov/uccl/test/fuzz/input.h prov/uccl/test/fuzz/replay.c
uccl_tests += $(uccl_fuzz_targets)
endif

# Real processes over the built provider: util/chaos runs it. Of the library it takes what makes packets.
uccl_test_programs += prov/uccl/test/system/uccl_chaos
prov_uccl_test_system_uccl_chaos_SOURCES = $(uccl_system_sources)
prov_uccl_test_system_uccl_chaos_LDADD = libuccl_core.la $(LIBFABRIC_LIBS)

# The provider itself inside of a process, against a model; long runs: uccl_model 1000000 SEED THREADS.
uccl_test_programs += prov/uccl/test/system/uccl_model
uccl_tests += prov/uccl/test/system/uccl_model
prov_uccl_test_system_uccl_model_SOURCES = prov/uccl/test/system/uccl_model.c

# Random calls of several processes over the built provider: util/test torture runs it.
uccl_test_programs += prov/uccl/test/system/uccl_torture
prov_uccl_test_system_uccl_torture_SOURCES = \
	prov/uccl/test/system/fab.c \
	prov/uccl/test/system/fab.h \
	prov/uccl/test/system/harness.c \
	prov/uccl/test/system/harness.h \
	prov/uccl/test/system/uccl_torture.c \
	prov/uccl/test/system/uccl_torture.h \
	prov/uccl/test/system/uccl_torture_buf.c \
	prov/uccl/test/system/uccl_torture_cell.c \
	prov/uccl/test/system/uccl_torture_core.c \
	prov/uccl/test/system/uccl_torture_drain.c \
	prov/uccl/test/system/uccl_torture_ep.c \
	prov/uccl/test/system/uccl_torture_msg.c \
	prov/uccl/test/system/uccl_torture_rank.c \
	prov/uccl/test/system/uccl_torture_region.c \
	prov/uccl/test/system/uccl_torture_rma.c \
	prov/uccl/test/system/uccl_torture_victim.c
prov_uccl_test_system_uccl_torture_LDADD = libuccl_core.la $(LIBFABRIC_LIBS)
prov_uccl_test_system_uccl_torture_LDFLAGS = -pthread

# Two processes with many endpoints and threads.
uccl_test_programs += prov/uccl/test/system/uccl_endpoints
prov_uccl_test_system_uccl_endpoints_SOURCES = prov/uccl/test/system/uccl_endpoints.c \
	util/bench/endpoint.c util/bench/endpoint.h
prov_uccl_test_system_uccl_endpoints_LDADD = $(LIBFABRIC_LIBS)
prov_uccl_test_system_uccl_endpoints_LDFLAGS = -pthread

# Two processes and the memory of a GPU, if there is one.
uccl_test_programs += prov/uccl/test/system/uccl_gpu
prov_uccl_test_system_uccl_gpu_SOURCES = \
	prov/uccl/test/system/uccl_gpu_calls.c \
	prov/uccl/test/system/uccl_gpu_calls.h \
	prov/uccl/test/system/uccl_gpu.c
prov_uccl_test_system_uccl_gpu_LDADD = $(LIBFABRIC_LIBS)
prov_uccl_test_system_uccl_gpu_LDFLAGS = $(AM_LDFLAGS) -export-dynamic

# One endpoint and many peers: what they cost.
uccl_test_programs += prov/uccl/test/system/uccl_peers
prov_uccl_test_system_uccl_peers_SOURCES = prov/uccl/test/system/uccl_peers.c

# What an operation costs beside others that wait. contrib/check-scale compares few with many.
uccl_test_programs += prov/uccl/test/system/uccl_scale
prov_uccl_test_system_uccl_scale_SOURCES = prov/uccl/test/system/uccl_scale.c

# Threads of lanes while nothing happens.
uccl_test_programs += prov/uccl/test/system/uccl_asleep
uccl_tests += prov/uccl/test/system/uccl_asleep
prov_uccl_test_system_uccl_asleep_SOURCES = prov/uccl/test/system/uccl_asleep.c

# Hostile datagrams: goodput that they leave, and long campaigns: uccl_flood --count 10000000. Makes packets by itself.
uccl_test_programs += prov/uccl/test/system/uccl_flood
prov_uccl_test_system_uccl_flood_SOURCES = prov/uccl/test/system/uccl_flood.c util/bench/endpoint.c util/bench/endpoint.h
prov_uccl_test_system_uccl_flood_LDADD = libuccl_core.la $(LIBFABRIC_LIBS)
