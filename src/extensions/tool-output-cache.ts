import {
  type ArgumentCheck,
  type Content,
  type Extension,
  type IterationChange,
  type IterationView,
  type Message,
  type ToolAnswer,
  type ToolCallRequest,
  type ToolMessage,
  type ToolProvider,
  textOf,
} from '../core/contracts/index.ts';
import { History, type LoopState, type TurnIdentity } from '../core/journal/index.ts';
import { assertOptions, wholeNumber } from '../core/options/index.ts';
import { engineDefinition } from '../tools/tool.ts';
import { compactionName, indexAfterCompaction, isCompaction } from './context/compaction.ts';
import { firstLargeOutput, oldResultsEnd, type TrimOptions, trimBetween } from './context/trim-tool-outputs.ts';

/** Options of `toolOutputCache`: which tool outputs are sent shortened. */
export interface ToolOutputCacheOptions {
  /** How many of the newest tool outputs stay whole; those that the model has not answered yet do in any case. Default 5. */
  readonly keepLast?: number | undefined;
  /** An older output of more characters than this is sent as its beginning and its end, about as long as this. Default 2,000. */
  readonly maxChars?: number | undefined;
}

/**
 * Old large tool outputs are short in what the model sees, and it can read them again: from the first one on it is offered the tool
 * `read_tool_output`, which gives any part of an output, in pages. History and journal keep all of them whole; nothing is
 * stored twice, and what is not in the turn's history cannot be read. Time is linear in what follows the last compaction; memory: its
 * short forms, and an id for each output, for as long as the turn runs. Errors: `INVALID_CONFIG`, naming the option.
 */
export function toolOutputCache(options: ToolOutputCacheOptions = {}): Extension {
  assertOptions('toolOutputCache', options, { keepLast: wholeNumber(0), maxChars: wholeNumber(1) });
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
    prepareIteration: (view, { state }) => outputsOf(state.turn).shortened(view, state),
    beforeToolCall: (request) =>
      request.call.function.name === readToolOutputName ? { answer: answerTo(request) } : undefined,
  };
}

/** The outputs of one turn. Those that a compaction stands for are not looked at again, and their short forms are let go. */
class TurnOutputs {
  readonly #limits: Pick<TrimOptions, 'keepLast' | 'maxChars'>;
  readonly #ids = new OutputIds();
  #history = History.of([]);
  #compaction: unknown;
  #options: TrimOptions;
  /** Where the first large one stands among those that the compaction stands for; -1: there is none. */
  #firstCompacted = -1;
  /** The view before, and how many of its first messages were sent as they are. */
  #seen: readonly Message[] = [];
  #whole = 0;

  constructor(limits: Pick<TrimOptions, 'keepLast' | 'maxChars'>) {
    this.#limits = limits;
    this.#options = this.#trimOptions();
  }

  shortened(view: IterationView, { history, changes }: LoopState): IterationChange | undefined {
    const { messages } = view;
    const compaction = changes.data[compactionName];
    const from = isCompaction(compaction) ? Math.max(indexAfterCompaction(messages, history, compaction), 0) : 0;
    if (compaction !== this.#compaction) {
      this.#compaction = compaction;
      this.#options = this.#trimOptions();
      this.#firstCompacted = firstLargeOutput(messages.slice(0, from), this.#limits);
    }
    this.#history = history;
    const end = oldResultsEnd(messages, this.#limits.keepLast);
    const short = trimBetween(messages, this.#options, { from: Math.max(from, this.#firstToLookAt(messages)), end });
    this.#noteWhole(messages, short, end);
    // The model may know of an output that it does not see any more.
    const shortenedBefore = this.#firstCompacted >= 0 && this.#firstCompacted < end;
    if (short === messages && !shortenedBefore) return undefined;
    return { view: { messages: short, tools: namesWithReader(view) } };
  }

  #trimOptions(): TrimOptions {
    return { ...this.#limits, reference: (_, result) => this.#reference(result) };
  }

  #reference(result: ToolMessage): string | undefined {
    const id = this.#ids.idOf(this.#history, result);
    return id === undefined ? undefined : `given by ${readToolOutputName}({"id":${JSON.stringify(id)}})`;
  }

  /** After the messages that the view before has too, all of them whole; never between a call and its results. */
  #firstToLookAt(messages: readonly Message[]): number {
    let index = 0;
    while (index < this.#whole && messages[index] === this.#seen[index]) index++;
    while (index > 0 && messages[index]?.role === 'tool') index--;
    return index;
  }

  #noteWhole(messages: readonly Message[], short: readonly Message[], end: number): void {
    let index = short === messages ? end : 0;
    while (index < end && messages[index] === short[index]) index++;
    this.#seen = messages;
    this.#whole = index;
  }
}

function namesWithReader({ tools }: IterationView): readonly string[] {
  return [...new Set([...tools.map((tool) => tool.function.name), readToolOutputName])];
}

function answerTo({ state, arguments: given }: ToolCallRequest): ToolAnswer {
  const part = outputPart(given);
  const error = (message: string) => ({ content: `Tool error: ${message}.`, success: false, error: message });
  if (typeof part === 'string') return error(part);
  const found = outputOf(state.history, part.id);
  if (found) return { content: pageOf(found.content, part) };
  return error(`there is no output "${part.id}" in this conversation; take the id from the note of the shortened one`);
}

/** The ids of the outputs of a growing history: that of the call; repeated ids get a number. Each message is read once. */
class OutputIds {
  #read = 0;
  #seen = new Map<string, number>();
  readonly #ids = new WeakMap<ToolMessage, string>();

  idOf(history: History, output: ToolMessage): string | undefined {
    this.#readTo(history);
    if (!this.#ids.has(output)) this.#readAgain(history);
    return this.#ids.get(output);
  }

  #readTo(history: History): void {
    for (; this.#read < history.length; this.#read++) {
      const message = history.at(this.#read);
      if (message?.role === 'tool') this.#ids.set(message, this.#nextId(message));
    }
  }

  /** Extensions may put another message in the place of one that was read. */
  #readAgain(history: History): void {
    this.#read = 0;
    this.#seen = new Map();
    this.#readTo(history);
  }

  #nextId({ toolCallId }: ToolMessage): string {
    const count = (this.#seen.get(toolCallId) ?? 0) + 1;
    this.#seen.set(toolCallId, count);
    return count === 1 ? toolCallId : `${toolCallId}#${count}`;
  }
}

/** The output of a history that has this id. */
function outputOf(history: History, id: string): ToolMessage | undefined {
  const ids = new OutputIds();
  for (const message of history) if (message.role === 'tool' && ids.idOf(history, message) === id) return message;
  return undefined;
}

const readToolOutputName = 'read_tool_output';

/** Characters of a page. */
const pageLength = { default: 4_000, most: 16_000 };

/** A part of an output that was shortened. */
interface OutputPart {
  readonly id: string;
  /** Where it begins. Characters, from 0. */
  readonly offset: number;
  readonly length: number;
}

/** A page of an output, and where the next one begins. Parts other than text come with the first page. */
function pageOf(content: Content, { offset, length }: Omit<OutputPart, 'id'>): Content {
  const text = textOf(content);
  const page = text.slice(offset, offset + length);
  const end = Math.min(offset, text.length) + page.length;
  const rest = end < text.length ? `; continue with offset ${end}` : '';
  const noted = `[characters ${end - page.length} to ${end} of ${text.length}${rest}]\n${page}`;
  if (typeof content === 'string' || offset > 0) return noted;
  const attachments = content.filter(({ type }) => type !== 'text');
  return attachments.length === 0 ? noted : [{ type: 'text', text: noted }, ...attachments];
}

/** Reads arguments of the tool. Words for the model where they are wrong. */
function outputPart(value: unknown): OutputPart | string {
  if (typeof value !== 'object' || value === null || !('id' in value) || typeof value.id !== 'string') {
    return 'id must be the text that stands in the note of the shortened output';
  }
  const offset = 'offset' in value ? value.offset : 0;
  const length = 'length' in value ? value.length : pageLength.default;
  if (!isCount(offset, 0)) return 'offset must be a whole number from 0';
  if (!isCount(length, 1)) return `length must be a whole number from 1 to ${pageLength.most}`;
  return { id: value.id, offset, length: Math.min(length, pageLength.most) };
}

function isCount(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && Number(value) >= least;
}

function checkArguments(value: unknown): ArgumentCheck {
  const part = outputPart(value);
  return typeof part === 'string' ? { ok: false, message: part } : { ok: true, value: part };
}

const definition = engineDefinition({
  type: 'function',
  hidden: true,
  readOnly: true,
  idempotent: true,
  checkArguments,
  function: {
    name: readToolOutputName,
    description:
      'Reads a tool output again that was shortened in this conversation, by the id that stands in its note. Long outputs come in pages.',
    parameters: {
      type: 'object',
      properties: {
        id: { type: 'string', description: 'The id in the note of the shortened output.' },
        offset: { type: 'integer', minimum: 0, description: 'The character to begin with. Default 0.' },
        length: {
          type: 'integer',
          minimum: 1,
          maximum: pageLength.most,
          description: `How many characters at most. Default ${pageLength.default}.`,
        },
      },
      required: ['id'],
      additionalProperties: false,
    },
  },
});

/** Offers the tool; its extension gives the answers, as it knows the history. */
const toolOutputReader: ToolProvider = {
  name: 'toolOutputCache',
  getTools: () => [definition],
  executeTool: () => Promise.reject(new Error(`${readToolOutputName} is answered by the extension toolOutputCache`)),
};
