import type { Agent } from '../agent/agent.ts';
import {
  AgentLoopError,
  invalidConfig,
  type MaybePromise,
  messageOf,
  type TaskState,
  type TaskStateStore,
  taskIdPattern,
  taskStates,
} from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord, kindOf } from '../core/journal/index.ts';
import {
  aBoolean,
  aFunction,
  aName,
  anObject,
  checkNames,
  checkOption,
  checkStore,
  type OptionRule,
} from '../options/option-rules.ts';
import { isOwnOrigin } from '../own-origin.ts';
import type { PriceList } from '../providers/models/model-info.ts';
import { ModelRegistry } from '../providers/models/model-registry.ts';
import { formatJournal } from '../stores/journal-file.ts';
import { jsonBody, malformed, Refusal, refusalOf, refused } from '../ui/requests.ts';
import { sentenceOf } from '../ui/stream-options.ts';
import { actions, replayed } from './actions.ts';
import { compare } from './compare.ts';
import { Journals } from './journals.ts';
import { pageFile } from './page-files.ts';
import { rowsStream } from './rows-stream.ts';
import { ShownValues } from './shown-values.ts';
import { detailOf } from './task-detail.ts';
import { TaskList } from './task-list.ts';
import type { InspectInfo, RecordLine } from './wire.ts';

/** Options of `inspectHandler`: the store, who may see it, and whether turns may be changed. */
export interface InspectOptions {
  /** The store whose turns are shown, whichever process runs them. */
  readonly store: TaskStateStore;
  /** Whether whoever sent the request may see every turn of the store: journals hold whole conversations. `false` refuses it with 401. */
  readonly authorize: (request: Request) => MaybePromise<boolean>;
  /** The path that the handler is mounted at. Default `/`. */
  readonly basePath?: string | undefined;
  /** Allows turns to be cancelled, answered, steered, forked and retried. Default false. */
  readonly write?: boolean | undefined;
  /** Replays turns of its own; with `write` it runs them here, also those that are answered, forked or retried. Needs this store. Default: none. */
  readonly agent?: Agent | undefined;
  /** Shows what looks like a key, a token or a password as it is in the journal. Default false: `[redacted]`. */
  readonly raw?: boolean | undefined;
  /** Where the prices of models are found. Default: a `ModelRegistry` with the models of this version. */
  readonly prices?: PriceList | undefined;
}

const rules: Readonly<Record<keyof InspectOptions, OptionRule>> = {
  store: anObject,
  authorize: { ...aFunction, cure: 'write (request) => whether its sender may see all turns' },
  basePath: aName,
  write: aBoolean,
  agent: { fits: (value) => typeof Reflect.get(Object(value), 'resume') === 'function', must: 'be an Agent' },
  raw: aBoolean,
  prices: { fits: (value) => typeof Reflect.get(Object(value), 'find') === 'function', must: 'have find(model)' },
};

/**
 * Serves the inspector as a `fetch` handler: a page over a store, and the API that it reads. `GET api/tasks` lists turns, `api/tasks/:id` and
 * the paths below it show one, and `POST api/tasks/:id/:action` changes it where `write` allows that. Reads journals when they are looked
 * at, and writes nothing without `write`. Requests of other sites are refused with 403. Of errors only those that the caller can mend have their
 * message. Memory: the journals that were looked at last, 60,000 records in all. Errors: `INVALID_CONFIG`, naming the option and the cure.
 */
export function inspectHandler(options: InspectOptions): (request: Request) => Promise<Response> {
  const inspector = new Inspector(checked(options));
  return (request) => inspector.answer(request);
}

function checked(options: InspectOptions): InspectOptions {
  checkOption('the options of inspectHandler', options, anObject);
  checkNames(options, Object.keys(rules), 'inspectHandler');
  for (const [name, rule] of Object.entries(rules)) {
    const value: unknown = Reflect.get(options, name);
    const isRequired = name === 'store' || name === 'authorize';
    if (value !== undefined || isRequired) checkOption(name, value ?? null, rule);
  }
  checkStore('store', options.store);
  const { agent, store, basePath = '/' } = options;
  if (agent && agent.options.taskStateStore !== store)
    throw invalidConfig(`agent "${agent.id}" has another taskStateStore than store`, 'give both the same store');
  if (!basePath.startsWith('/')) throw invalidConfig('basePath must begin with /', 'write e.g. "/inspect"');
  return options;
}

const maxBodyBytes = 2 ** 20;
const mostPerPage = 500;
const mostMessages = 200;
const states: ReadonlySet<string> = new Set<TaskState | 'resumable'>([...taskStates, 'resumable']);

/** A request below the API, and the task that it is about. */
interface Asked {
  readonly request: Request;
  readonly query: URLSearchParams;
  readonly taskId: string;
  /** What stands after the name of the route. */
  readonly rest: string | undefined;
}

class Inspector {
  readonly #options: InspectOptions;
  readonly #base: string;
  readonly #shown: ShownValues;
  readonly #journals: Journals;
  readonly #prices: PriceList;
  readonly #list: TaskList;

  constructor(options: InspectOptions) {
    const { store, prices = new ModelRegistry(), raw = false, basePath = '/' } = options;
    this.#options = options;
    this.#base = basePath.endsWith('/') ? basePath : `${basePath}/`;
    this.#shown = new ShownValues(raw);
    this.#journals = new Journals(store, { raw });
    this.#prices = prices;
    this.#list = new TaskList({ store, prices, shown: this.#shown });
  }

  async answer(request: Request): Promise<Response> {
    try {
      checkSite(request);
      const url = new URL(request.url);
      const path = url.pathname.startsWith(this.#base) ? url.pathname.slice(this.#base.length) : undefined;
      if (path === undefined) {
        const isBase = `${url.pathname}/` === this.#base && request.method === 'GET';
        if (!isBase) throw unknownPath();
        return new Response(null, { status: 308, headers: { location: this.#base } });
      }
      const file = request.method === 'GET' ? pageFile(path, this.#base) : undefined;
      if (file) return file;
      if (!path.startsWith('api/')) throw unknownPath();
      if ((await this.#options.authorize(request)) !== true)
        throw new Refusal(401, 'UNAUTHENTICATED', 'Authentication is required.');
      return await this.#api(request, path.slice('api/'.length), url.searchParams);
    } catch (error) {
      return refused(this.#refusalOf(error));
    }
  }

  async #api(request: Request, path: string, query: URLSearchParams): Promise<Response> {
    const [kind, id = '', name = '', rest] = path.split('/');
    const isAction = kind === 'tasks' && Object.hasOwn(actions, name);
    if (request.method === 'POST') {
      if (!this.#options.write || !isAction) throw notAllowed(isAction ? 'POST' : 'GET');
      return this.#act(request, taskIn(id), name);
    }
    if (request.method !== 'GET') throw notAllowed('GET');
    if (kind === 'info' && id === '') return this.#json(this.#info());
    if (kind === 'notes' && id === '') return this.#json(await this.#list.notes(idsIn(query)));
    if (kind === 'tasks' && id === '') return this.#json(await this.#list.page(listQuery(query)));
    const route = kind === 'tasks' && id !== '' && Object.hasOwn(this.#routes, name) ? this.#routes[name] : undefined;
    if (!route) throw isAction ? notAllowed('POST') : unknownPath();
    return route({ request, query, taskId: taskIn(id), rest });
  }

  readonly #routes: Readonly<Record<string, (asked: Asked) => Promise<Response>>> = {
    '': async ({ taskId }) => {
      const deps = { store: this.#options.store, list: this.#list, prices: this.#prices };
      return this.#json(this.#shown.shortened(await detailOf(await this.#journals.read(taskId), deps)));
    },
    rows: async ({ taskId }) => {
      const { records } = await this.#journals.read(taskId);
      const errorOf = (error: unknown) => this.#refusalOf(error);
      const streaming = { taskId, records, store: this.#options.store, shown: this.#shown, errorOf };
      return answered(rowsStream(streaming), { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' });
    },
    records: async ({ taskId, rest, query }) => {
      const { records } = await this.#journals.read(taskId);
      if (rest === undefined) {
        const from = numberIn(query, 'from', 1);
        const lines = records.slice(from - 1, from - 1 + numberIn(query, 'limit', mostPerPage)).map(lineOf);
        return this.#json({ records: lines, last: records.length });
      }
      const record = records[Number(rest) - 1];
      if (!record) throw new Refusal(404, 'NOT_FOUND', `The journal has no record ${shownNumber(rest)}.`);
      return this.#json(query.has('whole') ? this.#shown.clean(record) : this.#shown.shortened(record));
    },
    messages: async ({ taskId, query }) => {
      const { records } = await this.#journals.read(taskId);
      const { messages, turn } = foldRecords(records);
      const from = numberIn(query, 'from', 0);
      const part = messages.slice(from, from + mostMessages);
      const { given, earlier } = turn;
      return this.#json({ messages: this.#shown.shortened(part), from, total: messages.length, given, earlier });
    },
    export: async ({ taskId }) => {
      const { records } = await this.#journals.read(taskId);
      const headers = {
        'content-type': 'application/x-ndjson',
        'content-disposition': `attachment; filename="${taskId.replaceAll(':', '_')}.jsonl"`,
      };
      return answered(formatJournal(this.#shown.clean(records)), headers);
    },
    compare: async ({ taskId, query }) => {
      const other = taskIn(query.get('with') ?? '');
      const [left, right] = [await this.#journals.read(taskId), await this.#journals.read(other)];
      return this.#json(this.#shown.shortened(compare(left.records, right.records)));
    },
    replay: async ({ taskId }) => this.#json(this.#shown.shortened(await replayed(taskId, this.#actionDeps))),
  };

  async #act(request: Request, taskId: string, name: string): Promise<Response> {
    const action = actions[name];
    if (!action) throw unknownPath();
    return this.#json(await action(taskId, await jsonBody(request, maxBodyBytes), this.#actionDeps));
  }

  get #actionDeps() {
    const { store, agent } = this.#options;
    return { store, agent, journals: this.#journals };
  }

  #info(): InspectInfo {
    const { write = false, agent, raw = false } = this.#options;
    return { write, raw, ...(agent && { agentId: agent.id }) };
  }

  #json(value: unknown): Response {
    return answered(JSON.stringify(value), { 'content-type': 'application/json' });
  }

  /** What the caller can mend is said in full; of the rest only what kind it is. */
  #refusalOf(error: unknown): Refusal {
    const refusal = refusalOf(error, sentenceOf);
    if (error instanceof Refusal || refusal.status >= 500 || !AgentLoopError.isInstance(error)) return refusal;
    return new Refusal(refusal.status, refusal.code, this.#shown.clean(messageOf(error)));
  }
}

function answered(body: string | ReadableStream<Uint8Array>, headers: Readonly<Record<string, string>>): Response {
  return new Response(body, {
    headers: { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...headers },
  });
}

/** Refuses what a page of another site sends. Browsers say where a request comes from; other clients do not. */
function checkSite(request: Request): void {
  const site = request.headers.get('sec-fetch-site') ?? 'none';
  const isOwn = isOwnOrigin(request.headers.get('origin'), request.url);
  if ((site !== 'same-origin' && site !== 'none') || !isOwn)
    throw new Refusal(403, 'FORBIDDEN', 'Requests of other sites are refused.');
}

function unknownPath(): Refusal {
  return new Refusal(404, 'NOT_FOUND', 'There is no such path.');
}

function notAllowed(allowed: string): Refusal {
  return new Refusal(
    405,
    'INVALID_INPUT',
    `This path takes ${allowed}${allowed === 'POST' ? ', where the inspector may write' : ''}.`,
  );
}

function taskIn(text: string): string {
  const taskId = decoded(text);
  if (!taskIdPattern.test(taskId)) throw malformed('This is no id of a task.');
  return taskId;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

function idsIn(query: URLSearchParams): readonly string[] {
  const ids = (query.get('ids') ?? '').split(',').filter((id) => taskIdPattern.test(id));
  if (ids.length > mostPerPage) throw malformed(`Ask for ${mostPerPage} tasks at most.`);
  return ids;
}

function listQuery(query: URLSearchParams) {
  const state = query.get('state') ?? '';
  if (!isState(state) && state !== '') throw malformed(`state must be one of ${[...states].join(', ')}.`);
  const after = query.get('after') ?? undefined;
  const text = query.get('q') ?? undefined;
  const limit = Math.min(mostPerPage, numberIn(query, 'limit', 100));
  return { ...(isState(state) && { state }), text, after, limit, children: query.has('children') };
}

function isState(text: string): text is TaskState | 'resumable' {
  return states.has(text);
}

function numberIn(query: URLSearchParams, name: string, otherwise: number): number {
  const text = query.get(name);
  if (text === null) return otherwise;
  if (!/^\d{1,9}$/.test(text)) throw malformed(`${name} must be a whole number.`);
  return Number(text);
}

function shownNumber(text: string): string {
  return /^\d{1,9}$/.test(text) ? text : 'of that number';
}

function lineOf(record: JournalRecord): RecordLine {
  const { seq, type, at, epoch } = record;
  const subject = kindOf(type)?.subject(record);
  return { seq, type, at, epoch, ...(subject !== undefined && { subject }) };
}
