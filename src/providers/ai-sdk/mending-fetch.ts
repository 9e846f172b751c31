import { type Clock, systemClock } from '../../core/contracts/index.ts';
import { isJsonObject, type JsonObject, jsonIn } from '../json-object.ts';
import type { Fetch } from '../openai-wire/openai-client.ts';
import { type ModelServer, protocolError, vendorError } from '../openai-wire/wire-errors.ts';
import { failureIn } from '../read-failure.ts';

/** What a package refuses although the answer is whole: where an object has these members, it gets those that it lacks. */
interface Mending {
  readonly when: JsonObject;
  readonly fill: JsonObject;
}

interface WireMendings {
  /** Of events, and of whole bodies. */
  readonly rows: readonly Mending[];
  /** Events in place of one, where what they say depends on others. Made for each answer. */
  readonly events?: () => (event: JsonObject) => readonly JsonObject[];
  /** What an answer of another API has, and what to do then. */
  readonly other?: { readonly object: RegExp; readonly what: string };
  /** The member that a whole body must have. */
  readonly body: string;
}

const noTokens = { input_tokens: 0, output_tokens: 0 };
const itemOf = (type: string, fill: JsonObject): Mending => ({ when: { item: { type } }, fill: { item: fill } });
const blockOf = (type: string, fill: JsonObject): Mending => ({
  when: { type: 'content_block_start', content_block: { type } },
  fill: { content_block: fill },
});

/** By what a package calls the provider. Servers of Anthropic's and OpenAI's wires other than the vendor leave such members out. */
const mendings: Readonly<Record<string, WireMendings>> = {
  anthropic: {
    body: 'content',
    events: anthropicEvents,
    rows: [
      { when: { type: 'message_start' }, fill: { message: { usage: noTokens } } },
      { when: { type: 'message_delta' }, fill: { delta: {}, usage: { output_tokens: 0 } } },
      { when: { type: 'message' }, fill: { usage: noTokens } },
      blockOf('text', { text: '' }),
      blockOf('thinking', { thinking: '' }),
      blockOf('tool_use', { input: {} }),
    ],
  },
  openai: {
    body: 'output',
    other: {
      object: /^chat\.completion/,
      what: 'answered with a chat completion to a request of the Responses API; name the model openai-chat:MODEL',
    },
    rows: [
      { when: { type: 'response.created' }, fill: { response: { id: '', created_at: 0, model: '' } } },
      { when: { type: 'response.completed' }, fill: { response: { usage: noTokens } } },
      { when: { object: 'response' }, fill: { created_at: 0, usage: noTokens } },
      itemOf('reasoning', { summary: [] }),
      itemOf('function_call', { arguments: '' }),
    ],
  },
};

/**
 * The input of a call that stands whole at its start is a delta of its own, unless deltas follow, which say it again. Zeros at the end of an answer
 * count nothing.
 */
function anthropicEvents(): (event: JsonObject) => readonly JsonObject[] {
  const inputs = new Map<unknown, JsonObject>();
  return (event) => {
    const { type, index, content_block: block, delta, usage } = event;
    if (type === 'message_delta' && isJsonObject(usage)) {
      const counted = Object.entries(usage).filter(([name, count]) => count !== 0 || name === 'output_tokens');
      return [{ ...event, usage: Object.fromEntries(counted) }];
    }
    if (type === 'content_block_start' && isJsonObject(block) && isJsonObject(block['input'])) {
      if (Object.keys(block['input']).length === 0) return [event];
      inputs.set(index, block['input']);
      return [{ ...event, content_block: { ...block, input: {} } }];
    }
    const input = inputs.get(index);
    if (input === undefined) return [event];
    if (type === 'content_block_delta' && isJsonObject(delta) && delta['type'] === 'input_json_delta')
      inputs.delete(index);
    if (type !== 'content_block_stop') return [event];
    inputs.delete(index);
    const whole = { type: 'input_json_delta', partial_json: JSON.stringify(input) };
    return [{ type: 'content_block_delta', index, delta: whole }, event];
  };
}

interface MendingOptions {
  /** What the package calls the provider, as the table of vendors has it. */
  readonly provider: string;
  readonly server: ModelServer;
  readonly clock?: Clock | undefined;
}

/**
 * A `fetch` whose good answers a package of the AI SDK can read. An event or a body that says a failure in any form, an event named as an error, and a page
 * of HTML are that failure, with the server's words; members that a package wants and a server leaves out are added. All else passes as it is. Memory: one event, or
 * a body that is not streamed.
 */
export function mendingFetch(fetch: Fetch, { provider, server, clock = systemClock }: MendingOptions): Fetch {
  const mender = new Mender(server, clock, mendings[provider]);
  return async (url, init) => {
    const response = await fetch(url, init);
    const { body, ok, status, statusText, headers } = response;
    if (!ok || body === null) return response;
    const type = headers.get('content-type') ?? '';
    if (/^\s*text\/event-stream/i.test(type)) {
      const mended = body.pipeThrough(new TextDecoderStream()).pipeThrough(mender.events());
      return new Response(mended.pipeThrough(new TextEncoderStream()), { status, statusText, headers });
    }
    if (!/^\s*application\/(?:[\w.-]+\+)?json/i.test(type)) return response;
    return new Response(mender.body(await response.text()), { status, statusText, headers });
  };
}

/** What may stand between two events. */
const blankLine = /\r\n\r\n|\n\n|\r\r|\n\r\n/;

/** One streamed answer. */
interface EventStream {
  readonly replaced: ((event: JsonObject) => readonly JsonObject[]) | undefined;
  /** Whether an event has passed that is no `ping`. */
  hasBegun: boolean;
}

class Mender {
  readonly #server: ModelServer;
  readonly #clock: Clock;
  readonly #wire: WireMendings | undefined;

  constructor(server: ModelServer, clock: Clock, wire: WireMendings | undefined) {
    this.#server = server;
    this.#clock = clock;
    this.#wire = wire;
  }

  events(): TransformStream<string, string> {
    let rest = '';
    const stream: EventStream = { replaced: this.#wire?.events?.(), hasBegun: false };
    const mend = (text: string): string => this.#event(text, stream);
    return new TransformStream({
      transform: (piece, controller) => {
        rest += piece;
        for (let end = blankLine.exec(rest); end !== null; end = blankLine.exec(rest)) {
          const after = end.index + end[0].length;
          controller.enqueue(mend(rest.slice(0, after)));
          rest = rest.slice(after);
        }
      },
      flush: (controller) => {
        if (rest !== '') controller.enqueue(mend(rest));
      },
    });
  }

  body(text: string): string {
    const value = jsonIn(text);
    if (value === undefined) return text;
    const failure = failureIn(value);
    if (failure !== undefined) throw this.#failed(failure);
    this.#assertOwn(value);
    if (this.#wire !== undefined && !(isJsonObject(value) && Array.isArray(value[this.#wire.body]))) {
      throw protocolError(this.#server, `answered with JSON of another API, ${this.#server.quote(text)}`);
    }
    const mended = this.#mended(value);
    return mended === value ? text : JSON.stringify(mended);
  }

  /** An event with the blank line after it. */
  #event(text: string, stream: EventStream): string {
    const fields = fieldsOf(text);
    const value = jsonIn(fields.data);
    const failure = failureOf(text, fields, value);
    // A package may wait for the first event before it returns the stream: then a failure is no part of it.
    if (failure && !stream.hasBegun) throw this.#failed(failure.said);
    if (failure) return failure.sent;
    if (fields.hasData && fields.data.trim() === '') return '';
    this.#assertOwn(value);
    const mended = this.#mended(value);
    stream.hasBegun ||= isJsonObject(value) && value['type'] !== 'ping';
    const { replaced } = stream;
    const events = isJsonObject(mended) && replaced !== undefined ? replaced(mended) : [mended];
    if (events.length === 1 && events[0] === value) return text;
    return events.map((event) => `${nameOf(fields, event)}data: ${JSON.stringify(event)}\n\n`).join('');
  }

  #assertOwn(value: unknown): void {
    const other = this.#wire?.other;
    if (other === undefined || !isJsonObject(value) || typeof value['object'] !== 'string') return;
    if (other.object.test(value['object'])) throw protocolError(this.#server, other.what);
  }

  #failed(said: unknown): Error {
    return vendorError(this.#server, said, { now: this.#clock.now() });
  }

  #mended(value: unknown): unknown {
    let mended = value;
    for (const { when, fill } of this.#wire?.rows ?? []) if (has(mended, when)) mended = filled(mended, fill);
    return mended;
  }
}

/** Whether packages throw at an event because of its type, which discards the events before it. */
function isOwnFailure(value: unknown): value is JsonObject {
  return isJsonObject(value) && /^(?:error|response\.failed)$/.test(String(value['type']));
}

/** The failure that an event is, if it is one, and the event that is sent in its place. */
function failureOf(
  text: string,
  { event, data }: Fields,
  value: unknown,
): { readonly said: unknown; readonly sent: string } | undefined {
  if (isPage(text) || isPage(data)) return { said: text, sent: failedEvent(text) };
  const failure = failureIn(value);
  if (failure !== undefined) return { said: failure, sent: isOwnFailure(value) ? failedEvent(value) : text };
  const said = value ?? data;
  return isFailureName(event) ? { said, sent: failedEvent(said) } : undefined;
}

/** An event that no package reads, so that it arrives where the events before it do: throwing would discard those that are not read yet. */
function failedEvent(said: unknown): string {
  const failure = isOwnFailure(said) ? { ...said, type: undefined } : { error: said };
  return `data: ${JSON.stringify({ ...failure, object: 'error' })}\n\n`;
}

/** Anthropic names its events after their type. */
function nameOf({ event: name }: Fields, event: unknown): string {
  if (name === '') return '';
  const type = isJsonObject(event) ? event['type'] : undefined;
  return `event: ${typeof type === 'string' ? type : name}\n`;
}

interface Fields {
  readonly event: string;
  readonly data: string;
  readonly hasData: boolean;
}

function fieldsOf(text: string): Fields {
  const lines = text.split(/\r\n|\n|\r/).flatMap((line) => {
    const [, name, value = ''] = /^(\w+)(?:: ?(.*))?$/s.exec(line) ?? [];
    return name === undefined ? [] : [{ name, value }];
  });
  const data = lines.filter(({ name }) => name === 'data').map(({ value }) => value);
  const event = lines.findLast(({ name }) => name === 'event')?.value ?? '';
  return { event, data: data.join('\n'), hasData: data.length > 0 };
}

function isPage(text: string): boolean {
  return /^\s*<(?:!doctype\s+html|html|head|body)\b/i.test(text);
}

/** `error`, `exception`, `response.failed`: names of events that say a failure whatever their data is. */
function isFailureName(event: string): boolean {
  return /(?:^|[._-])(?:errors?|exception|failed|failure)$/i.test(event) || /[a-z](?:Error|Exception)$/.test(event);
}

/** Whether `value` has all members of `pattern`, at every depth. */
function has(value: unknown, pattern: JsonObject): boolean {
  if (!isJsonObject(value)) return false;
  return Object.entries(pattern).every(([name, wanted]) =>
    isJsonObject(wanted) ? has(value[name], wanted) : value[name] === wanted,
  );
}

/** With the members that it lacks, or that are `null`; the same object where it lacks none. */
function filled(value: unknown, fill: JsonObject): unknown {
  const object = isJsonObject(value) ? value : {};
  const lacking = Object.entries(fill).flatMap(([name, wanted]) => {
    const own = object[name] ?? undefined;
    const made = own === undefined || isJsonObject(own) ? whole(own, wanted) : own;
    return made === own ? [] : [[name, made] as const];
  });
  return lacking.length === 0 && object === value ? value : { ...object, ...Object.fromEntries(lacking) };
}

function whole(own: unknown, wanted: unknown): unknown {
  return isJsonObject(wanted) ? filled(own, wanted) : (own ?? wanted);
}
