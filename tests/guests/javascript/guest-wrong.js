// A guest whose tool returns a value of the wrong type: the runtime says so on standard error, and traps.
export const skill = {
  tools: () => [{ name: "run", description: "Returns a wrong type.", inputSchema: '{"type":"object"}', extra: [] }],
  call: () => 42,
};
