import type { FinishReason, Usage } from '../../core/contracts/index.ts';

export interface ScriptCall {
  readonly name: string;
  /** An object, sent as JSON, or a string, sent unchanged. Default `{}`. */
  readonly arguments?: object | string;
  /** Default: made from the request. `''` sends an empty one. */
  readonly id?: string;
}

/**
 * Waited for on the server's side: a promise once, before the first chunk; a function before each chunk, with its number
 * from 0, where it returns a promise. Waiting ends when the client leaves.
 */
export type StepGate = Promise<unknown> | ((chunk: number) => Promise<unknown> | undefined);

/** An answer, whole or broken. A number of chunks counts the events sent: text, reasoning and pieces of calls. */
export interface AnswerStep {
  readonly reasoning?: string;
  readonly text?: string;
  readonly toolCalls?: readonly ScriptCall[];
  /** Default `tool_calls` where there are calls, else `stop`. */
  readonly finishReason?: FinishReason;
  /** Default: an estimate. `null`: none is sent. */
  readonly usage?: Usage | null;
  /** The model's name in the answer. Default: the one that the request asks for. */
  readonly model?: string;
  /** Characters of a chunk. Default: a word. */
  readonly chunkSize?: number;
  /** Milliseconds before each chunk. Default: the server's. */
  readonly delayMs?: number;
  readonly gate?: StepGate;
  /** Destroys the socket after that many chunks; without streaming, instead of answering. */
  readonly closeAfter?: number;
  /** Falls silent after that many chunks, until the client leaves; without streaming, instead of answering. */
  readonly stallAfter?: number;
  /** Ends the response cleanly after that many chunks, without a finish reason; without streaming, with an empty body. */
  readonly endAfter?: number;
  /** After that many chunks, one event with this data as it is, then the rest; without streaming, the data is the body. */
  readonly malformed?: { readonly after: number; readonly data: string };
  /** After that many chunks, one event with this as its `error`, then the end; without streaming, a 500 with it. */
  readonly midStreamError?: { readonly after: number; readonly error: object };
}

/** A refusal: an HTTP status with a body. */
export interface RefusalStep {
  readonly status: number;
  /** An object is sent as JSON, a string unchanged. Default: an error in OpenAI's form that names the status. */
  readonly body?: object | string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Waited for before the status is sent. */
  readonly gate?: Promise<unknown>;
}

export type ScriptedAnswer = AnswerStep | RefusalStep;

/** What the server does with one request, or a function that looks at the request's body and says so. */
export type ScriptStep = ScriptedAnswer | ((body: Readonly<Record<string, unknown>>) => ScriptedAnswer);

export function isRefusal(step: ScriptedAnswer): step is RefusalStep {
  return 'status' in step;
}
