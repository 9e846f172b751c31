import type { LLMChunk, Message, ToolCall } from 'millrace';

/** A model as every contender uses it: an answer is an async generator of chunks, `done` the last. */
export type FakeModel = (messages: readonly Message[]) => AsyncGenerator<LLMChunk>;

export interface FakeModelOptions {
  /** Answers that ask for tools, before the one that does not. */
  readonly iterations: number;
  /** Calls of one such answer. Default 1. */
  readonly calls?: number;
  /** How often the tool shall repeat its five letters. Default 2. */
  readonly times?: number;
  /** Pieces that the text of one answer comes in. Default 1. */
  readonly deltas?: number;
  /** Answers that were given before, where each is asked of a model of its own. Default 0. */
  readonly answered?: number;
  /** Milliseconds before the first chunk of an answer. Default: none, not even a timer. */
  readonly delayMs?: number;
}

const piece = 'words ';

/** A model for one turn. It hands out pieces of a text that it has, so that it piles up nothing of its own. */
export function fakeModel(options: FakeModelOptions): FakeModel {
  const { iterations, calls = 1, times = 2, deltas = 1, answered = 0, delayMs } = options;
  const content = piece.repeat(deltas);
  let answers = answered;
  return async function* answer() {
    if (delayMs !== undefined) await new Promise((resolve) => setTimeout(resolve, delayMs));
    const last = ++answers > iterations;
    for (let at = 0; at < content.length; at += piece.length) {
      yield { type: 'text', text: content.slice(at, at + piece.length) };
    }
    const toolCalls = last
      ? []
      : Array.from({ length: calls }, (_, index) => echoCall(`call-${answers}-${index}`, times));
    yield {
      type: 'done',
      response: { message: { role: 'assistant', content }, toolCalls, finishReason: last ? 'stop' : 'tool_calls' },
    };
  };
}

/** A model for any number of turns: what it answered before, it reads from the messages. */
export function sharedFakeModel(options: FakeModelOptions): FakeModel {
  return (messages) => {
    const answered = messages.filter(({ role }) => role === 'assistant').length;
    return fakeModel({ ...options, answered })(messages);
  };
}

function echoCall(id: string, times: number): ToolCall {
  return { id, type: 'function', function: { name: 'echo', arguments: `{"text":"hello","times":${times}}` } };
}
