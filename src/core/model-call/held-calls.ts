import type { ToolCall } from '../contracts/index.ts';
import { GrowingText, type StreamChunk } from '../journal/index.ts';
import { RepeatedCalls } from './repeated-calls.ts';

type CallDelta = Extract<StreamChunk, { type: 'tool-call' }>;

interface StreamedCall {
  readonly index: number;
  id: string;
  name: string;
  readonly arguments: GrowingText;
  isShown: boolean;
}

/**
 * Decides which deltas of tool calls are emitted. Those of a call with the id of an earlier call of the answer are held until the next call begins: then they
 * are dropped if it repeats that call, else emitted as one delta. If neither is known yet, no further call of the answer is streamed, because
 * deltas begin in the order of the calls; the response has them all. State of one model call; memory: the calls of the open attempt.
 */
export class HeldCalls {
  readonly #calls = new Map<number, StreamedCall>();
  /** The first call with each id. */
  readonly #firsts = new Map<string, StreamedCall>();
  /** Calls whose arguments are complete. */
  #complete = new RepeatedCalls();
  #held: StreamedCall | undefined;
  #isStopped = false;

  /** Called before `shows`, for each delta. Returns the delta to emit first, if the held call turns out to be another call. */
  released(delta: CallDelta): CallDelta | undefined {
    const held = this.#held;
    if (held === undefined || this.#calls.has(delta.index)) return undefined;
    this.#held = undefined;
    const first = wholeCall(this.#firsts.get(held.id));
    const second = wholeCall(held);
    this.#isStopped = first === undefined || second === undefined;
    if (!first || !second) return undefined;
    this.#complete.repeats(first);
    if (this.#complete.repeats(second)) return undefined;
    held.isShown = true;
    const { id, function: called } = second;
    return { type: 'tool-call', index: held.index, id, ...called };
  }

  /** Whether to emit the delta now. */
  shows(delta: CallDelta): boolean {
    const call = this.#calls.get(delta.index) ?? this.#begin(delta);
    if (call.id === '' && delta.id) this.#identify(call, delta.id);
    call.name ||= delta.name ?? '';
    call.arguments.add(delta.arguments ?? '');
    return call.isShown;
  }

  /** The attempt is discarded: its calls count no more. */
  clear(): void {
    this.#calls.clear();
    this.#firsts.clear();
    this.#complete = new RepeatedCalls();
    this.#held = undefined;
    this.#isStopped = false;
  }

  #begin({ index, id = '' }: CallDelta): StreamedCall {
    const isHeld = this.#firsts.has(id);
    const call = { index, id: '', name: '', arguments: new GrowingText(), isShown: !isHeld && !this.#isStopped };
    this.#calls.set(index, call);
    if (isHeld && !this.#isStopped) this.#held = call;
    return call;
  }

  #identify(call: StreamedCall, id: string): void {
    call.id = id;
    if (!this.#firsts.has(id)) this.#firsts.set(id, call);
  }
}

/** The call, if its arguments are a complete JSON object. */
function wholeCall(call: StreamedCall | undefined): ToolCall | undefined {
  const text = call?.arguments.toString() ?? '';
  if (!call || !text.trimEnd().endsWith('}')) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  return { id: call.id, type: 'function', function: { name: call.name, arguments: text } };
}
