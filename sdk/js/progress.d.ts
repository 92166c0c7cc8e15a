/** Streams text to the caller while the tool runs. */
export function report(text: string): void;
