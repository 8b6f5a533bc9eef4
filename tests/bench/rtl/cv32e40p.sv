// CV32E40P without its extensions, with the ports that simulate.cpp drives.
module core (
  input  logic        clk, rst_n, instr_rvalid, data_rvalid,
  input  logic [31:0] instr_rdata, data_rdata,
  output logic        instr_req, data_req, data_we,
  output logic [3:0]  data_be,
  output logic [31:0] instr_addr, data_addr, data_wdata
);
  cv32e40p_core cv32e40p (
    .clk_i(clk), .rst_ni(rst_n), .pulp_clock_en_i(1'b1), .scan_cg_en_i(1'b0),
    .boot_addr_i(32'h8000_0080), .mtvec_addr_i('0), .dm_halt_addr_i('0), .hart_id_i('0), .dm_exception_addr_i('0),
    .instr_req_o(instr_req), .instr_gnt_i(1'b1), .instr_rvalid_i(instr_rvalid), .instr_addr_o(instr_addr),
    .instr_rdata_i(instr_rdata),
    .data_req_o(data_req), .data_gnt_i(1'b1), .data_rvalid_i(data_rvalid), .data_we_o(data_we), .data_be_o(data_be),
    .data_addr_o(data_addr), .data_wdata_o(data_wdata), .data_rdata_i(data_rdata),
    .apu_busy_o(), .apu_req_o(), .apu_gnt_i(1'b0), .apu_operands_o(), .apu_op_o(), .apu_flags_o(),
    .apu_rvalid_i(1'b0), .apu_result_i('0), .apu_flags_i('0),
    .irq_i('0), .irq_ack_o(), .irq_id_o(),
    .debug_req_i(1'b0), .debug_havereset_o(), .debug_running_o(), .debug_halted_o(),
    .fetch_enable_i(1'b1), .core_sleep_o()
  );
endmodule

// The clock always runs, as the core never sleeps.
module cv32e40p_clock_gate (input clk_i, en_i, scan_cg_en_i, output logic clk_o);
  assign clk_o = clk_i;
endmodule
