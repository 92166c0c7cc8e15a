export interface IndexedTool {
  name: string;
  description: string;
  inputSchema: any;
  extra: Record<string, string>;
}
/** Returns one page of tools, sorted by name. */
export function list(options?: { after?: string; limit?: number }): IndexedTool[];
/** Yields all tools. */
export function entries(): Generator<IndexedTool>;
/** Returns the tools that match `query` best, the best first. */
export function find(query: string, options?: { limit?: number }): IndexedTool[];
