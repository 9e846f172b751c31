import type { LLMChunk, ToolCall } from '../../core/contracts/index.ts';

/** A call of a response that is still being streamed, its arguments complete. */
export interface StreamedCall {
  /** Position in the response, from 0. */
  readonly index: number;
  readonly call: ToolCall;
  readonly arguments: unknown;
}

interface GrowingCall {
  id: string;
  name: string;
  text: string;
  complete: boolean;
}

/** Puts the calls of one attempt together from their fragments. */
export class StreamedCalls {
  readonly #calls = new Map<number, GrowingCall>();

  /** The call that a fragment completes, the first time that it does: its arguments are a whole JSON object. */
  add(chunk: Extract<LLMChunk, { type: 'tool-call' }>): StreamedCall | undefined {
    const { index } = chunk;
    const growing = this.#calls.get(index) ?? { id: '', name: '', text: '', complete: false };
    this.#calls.set(index, growing);
    growing.id ||= chunk.id ?? '';
    growing.name ||= chunk.name ?? '';
    growing.text += chunk.arguments ?? '';
    if (growing.complete || growing.name === '' || !chunk.arguments?.trimEnd().endsWith('}')) return undefined;
    const args = wholeObject(growing.text);
    if (args === undefined) return undefined;
    growing.complete = true;
    const call = { name: growing.name, arguments: growing.text };
    return { index, call: { id: growing.id, type: 'function', function: call }, arguments: args };
  }
}

function wholeObject(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
