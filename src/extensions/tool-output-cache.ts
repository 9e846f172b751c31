import type { Extension, IterationView, ToolAnswer, ToolCallRequest } from '../core/extension.ts';
import type { Message, ToolMessage } from '../core/messages.ts';
import type { LoopState, TurnIdentity } from '../core/state.ts';
import { anyCount, assertOptions, someCount } from '../providers/policies/policy-options.ts';
import { outputPart, outputsIn, pageOf, readToolOutputName, toolOutputReader } from './context/read-tool-output.ts';
import { type TrimOptions, trimToolOutputs } from './context/trim-tool-outputs.ts';

export interface ToolOutputCacheOptions {
  /** How many of the newest tool outputs stay whole; those that the model has not answered yet do in any case. Default 5. */
  readonly keepLast?: number;
  /** An older output of more characters than this is sent as its beginning and its end, about as long as this. Default 2,000. */
  readonly maxChars?: number;
}

/**
 * Old large tool outputs are short in what the model sees, and it can read them again: from the first one on it is offered the tool
 * `read_tool_output`, which gives any part of an output, in pages. History and journal keep all of them whole; nothing is
 * stored twice, and what is not in the turn's history cannot be read. Time is linear in the history; memory: the short forms, for as
 * long as the turn runs. Errors: `INVALID_CONFIG`, naming the option.
 */
export function toolOutputCache(options: ToolOutputCacheOptions = {}): Extension {
  assertOptions('toolOutputCache', options, { keepLast: anyCount, maxChars: someCount });
  const { keepLast = 5, maxChars = 2_000 } = options;
  // A note names its output by its place among those of the turn, so turns that share messages do not share short forms.
  const turns = new WeakMap<TurnIdentity, TurnOutputs>();
  const outputsOf = (turn: TurnIdentity): TurnOutputs => {
    const outputs = turns.get(turn) ?? new TurnOutputs({ keepLast, maxChars });
    turns.set(turn, outputs);
    return outputs;
  };
  return {
    name: 'tool-output-cache',
    toolProviders: [toolOutputReader],
    prepareIteration: (view, { state }) => {
      const messages = outputsOf(state.turn).shortened(view.messages, state);
      return messages === view.messages ? undefined : { view: { messages, tools: namesWithReader(view) } };
    },
    beforeToolCall: (request) =>
      request.call.function.name === readToolOutputName ? { answer: answerTo(request) } : undefined,
  };
}

/** The short forms of one turn. */
class TurnOutputs {
  readonly #options: TrimOptions;
  #history: Iterable<Message> = [];
  /** Made where a short form is. */
  #ids: ReadonlyMap<ToolMessage, string> | undefined;

  constructor(limits: Pick<TrimOptions, 'keepLast' | 'maxChars'>) {
    this.#options = { ...limits, reference: (_, result) => this.#reference(result) };
  }

  shortened(messages: readonly Message[], { history }: LoopState): readonly Message[] {
    this.#history = history;
    const shortened = trimToolOutputs(messages, this.#options);
    this.#ids = undefined;
    return shortened;
  }

  #reference(result: ToolMessage): string | undefined {
    this.#ids ??= new Map(outputsIn(this.#history).map(({ id, message }) => [message, id]));
    const id = this.#ids.get(result);
    return id === undefined ? undefined : `given by ${readToolOutputName}({"id":${JSON.stringify(id)}})`;
  }
}

function namesWithReader({ tools }: IterationView): readonly string[] {
  return [...new Set([...tools.map((tool) => tool.function.name), readToolOutputName])];
}

function answerTo({ state, arguments: given }: ToolCallRequest): ToolAnswer {
  const part = outputPart(given);
  const error = (message: string) => ({ content: `Tool error: ${message}.`, success: false, error: message });
  if (typeof part === 'string') return error(part);
  const found = outputsIn(state.history).find(({ id }) => id === part.id);
  if (found) return { content: pageOf(found.message.content, part) };
  return error(`there is no output "${part.id}" in this conversation; take the id from the note of the shortened one`);
}
