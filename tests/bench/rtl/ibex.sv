// Ibex in its configuration maxperf, or small with -DSMALL (ibex_configs.yaml of its package), with the ports that simulate.cpp drives.
module core (
  input  logic        clk, rst_n, instr_rvalid, data_rvalid,
  input  logic [31:0] instr_rdata, data_rdata,
  output logic        instr_req, data_req, data_we,
  output logic [3:0]  data_be,
  output logic [31:0] instr_addr, data_addr, data_wdata
);
`ifdef SMALL
  localparam bit Fast = 0;
`else
  localparam bit Fast = 1;
`endif
  ibex_top #(
    .RV32M(Fast ? ibex_pkg::RV32MSingleCycle : ibex_pkg::RV32MFast),
    .BranchTargetALU(Fast), .WritebackStage(Fast)
  ) ibex (
    .clk_i(clk), .rst_ni(rst_n), .test_en_i(1'b0), .ram_cfg_i('0), .hart_id_i('0),
    .boot_addr_i(32'h8000_0000), // it starts 0x80 behind
    .instr_req_o(instr_req), .instr_gnt_i(1'b1), .instr_rvalid_i(instr_rvalid), .instr_addr_o(instr_addr),
    .instr_rdata_i(instr_rdata), .instr_rdata_intg_i('0), .instr_err_i(1'b0),
    .data_req_o(data_req), .data_gnt_i(1'b1), .data_rvalid_i(data_rvalid), .data_we_o(data_we), .data_be_o(data_be),
    .data_addr_o(data_addr), .data_wdata_o(data_wdata), .data_wdata_intg_o(), .data_rdata_i(data_rdata),
    .data_rdata_intg_i('0), .data_err_i(1'b0),
    .irq_software_i(1'b0), .irq_timer_i(1'b0), .irq_external_i(1'b0), .irq_fast_i('0), .irq_nm_i(1'b0),
    .scramble_key_valid_i(1'b0), .scramble_key_i('0), .scramble_nonce_i('0), .scramble_req_o(),
    .debug_req_i(1'b0), .crash_dump_o(), .double_fault_seen_o(),
    .fetch_enable_i(ibex_pkg::IbexMuBiOn), .alert_minor_o(), .alert_major_internal_o(), .alert_major_bus_o(),
    .core_sleep_o(), .scan_rst_ni(1'b1)
  );
endmodule

// The core's primitives: buffers, and a clock that always runs, as the core never sleeps.
module prim_buf #(parameter int Width = 1) (input [Width-1:0] in_i, output logic [Width-1:0] out_o);
  assign out_o = in_i;
endmodule

module prim_clock_gating (input clk_i, en_i, test_en_i, output logic clk_o);
  assign clk_o = clk_i;
endmodule
