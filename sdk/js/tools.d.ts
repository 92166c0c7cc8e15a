/** Calls a tool by its full name, such as `SKILL__TOOL`. Returns its result as text. */
export function call(tool: string, input?: object): string;
