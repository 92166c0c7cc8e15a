/** Returns the text of one completion by the model of the calling agent. */
export function complete(prompt: string, options?: { system?: string }): string;
