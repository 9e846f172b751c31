import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StreamResponse, Task } from '@a2a-js/sdk';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import { credentials, Client as GrpcClient, Metadata, type ServiceError } from '@grpc/grpc-js';
import { data, isTask, message, request } from '../a2a/messages.ts';
import type { Random } from '../crash/random.ts';
import { bodyOf, faultOf } from '../security/fuzz/http-answer.ts';
import { mangled, mangledBytes, mutated, oddHeader } from '../security/fuzz/mutations.ts';
import { McpWire } from '../security/mcp-wire.ts';
import { type Reached, reach, type Wire, wires } from '../security/reach.ts';
import type { MixedReady, MixedSettings } from './messages.ts';

/** What stands in files that no tool may read; it must never be in an answer. */
export const secret = 'the-secret-of-the-machine';

/** Paths that lead out of the workspace, or to what is private in it. */
const hostilePaths = [
  '../secret.txt',
  '/etc/passwd',
  '.env',
  'link.txt',
  'hard.txt',
  '.git/config',
  'a\u0000b',
  '..',
] as const;

const completed = 3;
const suspended = 6;

/** Errors of the protocol that a client of its own doing gets. */
const expected = /TaskNotFound|TaskNotCancelable|UnsupportedOperation|is over|no such task|CANCELLED/i;

interface Session {
  readonly who: string;
  readonly reached: Reached;
  /** Tasks of this caller. */
  readonly tasks: string[];
}

/** One server under load: every kind of client, each request with a deadline. */
export class MixedLoad {
  /** What went wrong. */
  readonly faults: string[] = [];
  /** By kind. */
  readonly done = new Map<string, number>();
  readonly #name: string;
  readonly #ready: MixedReady;
  readonly #keys: MixedSettings['keys'];
  readonly #stdio: (text: string) => Promise<string>;
  readonly #grpc: GrpcClient;
  readonly #sessions: Session[] = [];

  constructor(
    name: string,
    ready: MixedReady,
    { keys, stdio }: { readonly keys: MixedSettings['keys']; readonly stdio: (text: string) => Promise<string> },
  ) {
    this.#name = name;
    this.#ready = ready;
    this.#keys = keys;
    this.#stdio = stdio;
    this.#grpc = new GrpcClient(ready.grpcAddress, credentials.createInsecure());
  }

  async open(): Promise<void> {
    for (const { id, key } of this.#keys) {
      const tasks: string[] = [];
      for (const wire of wires) this.#sessions.push({ who: id, reached: await this.#reach(wire, key), tasks });
    }
  }

  close(): void {
    this.#grpc.close();
  }

  #reach(wire: Wire, key: string): Promise<Reached> {
    return reach(this.#ready.url, wire, { 'x-api-key': key });
  }

  /** One thing that a client does, as the random numbers say. Never rejects. */
  async act(random: Random, deadlineMs = 120_000): Promise<void> {
    const [name, act] = this.#drawn(random);
    this.done.set(name, (this.done.get(name) ?? 0) + 1);
    const late = new AbortController();
    const deadline = sleep(deadlineMs, 'late', { signal: late.signal }).catch(() => 'in time');
    const outcome = await Promise.race([
      act().then(
        () => 'in time',
        (error: unknown) => shownError(error),
      ),
      deadline,
    ]);
    late.abort();
    if (outcome === 'late') this.#fault(`${name}: no end within ${deadlineMs} ms`);
    else if (outcome !== 'in time' && !expected.test(outcome)) this.#fault(`${name}: ${outcome}`);
  }

  #fault(what: string): void {
    this.faults.push(`${this.#name}: ${what}`.slice(0, 600));
  }

  #drawn(random: Random): readonly [string, () => Promise<void>] {
    const session = this.#sessions[random.int(0, this.#sessions.length - 1)] as Session;
    return random.pick<readonly [string, () => Promise<void>]>([
      ['send', () => this.#send(session)],
      ['send', () => this.#send(session)],
      ['stream', () => this.#stream(session, random.int(5, 400))],
      ['stream', () => this.#stream(session, random.int(5, 400))],
      ['slow reader', () => this.#slowReader(random.int(500, 10_000), random.int(50, 2_000))],
      ['reconnect', () => this.#reconnect(session)],
      ['cancel', () => this.#cancel(session)],
      ['left stream', async () => void (await this.#leave(session))],
      ['files', () => this.#readFile(session, random)],
      ['files', () => this.#readFile(session, random)],
      ['question', () => this.#question(session, random)],
      ["another's task", () => this.#othersTask(session)],
      ['list', () => this.#list(session)],
      ['fuzz', () => this.#fuzz(random)],
      ['fuzz', () => this.#fuzz(random)],
      ['fuzz over gRPC', () => this.#fuzzGrpc(random)],
      ['MCP', () => this.#mcp(random)],
      ['MCP', () => this.#mcp(random)],
      ['MCP over stdio', () => this.#mcpStdio(random)],
    ]);
  }

  async #ask(session: Session, text: string): Promise<Task> {
    const { client, options } = session.reached;
    const task = await client.sendMessage(request(message(text)), options);
    if (!isTask(task)) throw new Error('the answer is not a task');
    session.tasks.push(task.id);
    if (session.tasks.length > 20) session.tasks.shift();
    return task;
  }

  async #send(session: Session): Promise<void> {
    const { status } = await this.#ask(session, 'say 3');
    if (status?.state !== completed) this.#fault(`send: the task ended as ${status?.state}`);
  }

  async #stream({ reached: { client, options } }: Session, pieces: number): Promise<void> {
    let length = 0;
    for await (const each of client.sendMessageStream(request(message(`say ${pieces}`)), options))
      length += textLengthOf(each);
    const piece = `${'word '.repeat(12)}\n`.length;
    if (length !== piece * pieces) this.#fault(`stream: ${length} characters came, not ${piece * pieces}`);
  }

  /** Asks for a long answer and reads nothing of it. */
  async #slowReader(pieces: number, ms: number): Promise<void> {
    const { hostname, port } = new URL(this.#ready.url);
    const params = {
      message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: `say ${pieces}` }] },
    };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendStreamingMessage', params });
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {});
    socket.pause();
    const lines = [
      'POST /a2a/jsonrpc HTTP/1.1',
      'Host: localhost',
      'Content-Type: application/json',
      'A2A-Version: 1.0',
      `X-Api-Key: ${this.#keys[0]?.key}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
    await sleep(ms);
    socket.destroy();
  }

  /** Leaves a stream in the middle, and subscribes again. */
  async #reconnect(session: Session): Promise<void> {
    const { client, options } = session.reached;
    const id = await this.#leave(session, 'say 800');
    if (id === '') return;
    let last: StreamResponse | undefined;
    for await (const each of client.resubscribeTask({ tenant: '', id }, options)) last = each;
    if (!last) this.#fault('reconnect: the stream was empty');
  }

  /** Takes the first event of a stream and leaves. */
  async #leave({ reached: { client, options } }: Session, text = 'say 200'): Promise<string> {
    const leaving = new AbortController();
    const stream = client.sendMessageStream(request(message(text)), { ...options, signal: leaving.signal });
    const { value } = await stream.next();
    leaving.abort();
    await stream.return?.(undefined).catch(() => {});
    return value?.payload?.$case === 'task' ? value.payload.value.id : '';
  }

  async #cancel(session: Session): Promise<void> {
    const { client, options } = session.reached;
    const sent = request(message('wait'), { returnImmediately: true });
    const task = await client.sendMessage(sent, options);
    if (!isTask(task)) throw new Error('the answer is not a task');
    const { status } = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }, options);
    if (status?.state !== 5) this.#fault(`cancel: the task is in state ${status?.state}`);
  }

  async #readFile(session: Session, random: Random): Promise<void> {
    const verb = random.pick(['read', 'read', 'list']);
    const allowed = random.chance(0.3);
    const path = allowed ? (verb === 'read' ? 'notes.txt' : '.') : random.pick([...hostilePaths]);
    const task = await this.#ask(session, `${verb} ${path}`);
    const text = JSON.stringify(task.artifacts);
    if (text.includes(secret) || /root:.*:0:0/.test(text)) this.#fault(`files: ${verb} ${path} gave what it may not`);
    if (allowed && !text.includes('note')) this.#fault(`files: ${verb} ${path} gave ${text.slice(0, 200)}`);
  }

  async #question(session: Session, random: Random): Promise<void> {
    const { client, options } = session.reached;
    const task = await this.#ask(session, 'refund');
    if (task.status?.state !== suspended) return this.#fault(`question: the task is in state ${task.status?.state}`);
    if (random.chance(0.2))
      return void (await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }, options));
    const parts = [data({ answers: { '1:0': { approved: random.chance(0.5) } } })];
    const after = await client.sendMessage(request(message(parts, { taskId: task.id })), options);
    if (!isTask(after) || after.status?.state !== completed)
      this.#fault('question: the answered task is not completed');
  }

  async #othersTask({ who, reached: { client, options } }: Session): Promise<void> {
    const others = this.#sessions.find((each) => each.who !== who)?.tasks ?? [];
    const id = others.at(-1);
    if (id === undefined) return;
    const found = await client.getTask({ tenant: '', id, historyLength: 1 }, options).catch(() => undefined);
    if (found) this.#fault(`another's task was shown to ${who}`);
  }

  async #list({ reached: { client, options } }: Session): Promise<void> {
    const filter = {
      tenant: '',
      contextId: '',
      status: 0,
      pageToken: '',
      statusTimestampAfter: undefined,
      pageSize: 20,
    };
    await client.listTasks({ ...filter, historyLength: 1, includeArtifacts: true }, options).catch((error: unknown) => {
      // Version 0.3 has no such method.
      if (!/not supported|not implemented|legacy|0\.3|Method/i.test(shownError(error))) throw error;
    });
  }

  async #fuzz(random: Random): Promise<void> {
    const isRest = random.chance(0.4);
    const params = {
      message: { messageId: `f${random.seed()}`, role: 'ROLE_USER', parts: [{ text: 'say 2' }] },
      configuration: { returnImmediately: random.chance(0.3), historyLength: 1 },
    };
    const method = random.pick(['SendMessage', 'SendStreamingMessage', 'GetTask', 'message/send', 'tasks/get']);
    const whole = isRest ? params : { jsonrpc: '2.0', id: 1, method, params };
    const text = random.chance(0.2) ? mangled(JSON.stringify(whole), random) : JSON.stringify(mutated(whole, random));
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'a2a-version': random.pick(['1.0', '0.3']),
      'x-api-key': this.#keys[1]?.key ?? '',
    };
    if (random.chance(0.15))
      headers[random.pick(['a2a-version', 'content-type', 'x-api-key', 'last-event-id'])] = oddHeader(random);
    const path = isRest ? random.pick(['/a2a/rest/message:send', '/a2a/rest/message:stream']) : '/a2a/jsonrpc';
    const response = await fetch(`${this.#ready.url}${path}`, { method: 'POST', headers, body: text ?? 'null' });
    const fault = faultOf(response.status, await bodyOf(response));
    if (fault) this.#fault(`fuzz: ${fault}; sent ${path} ${text?.slice(0, 200)}`);
  }

  async #fuzzGrpc(random: Random): Promise<void> {
    const { sendMessage: method } = A2AService;
    // A mangled id must not become that of a message of the other acts.
    const sent = message('say 2', { messageId: `g${random.seed()}` });
    const bytes = mangledBytes(Buffer.from(method.requestSerialize(request(sent))), random);
    const metadata = new Metadata();
    metadata.set('a2a-version', '1.0');
    if (random.chance(0.8)) metadata.set('x-api-key', this.#keys[0]?.key ?? '');
    const raw = (value: Buffer) => value;
    const error = await new Promise<ServiceError | null>((resolve) => {
      this.#grpc.makeUnaryRequest(method.path, raw, raw, bytes, metadata, resolve);
    });
    if (error && [2, 13, 15].includes(error.code)) this.#fault(`fuzz over gRPC: ${error.message}`);
  }

  async #mcp(random: Random): Promise<void> {
    const wire = await McpWire.open(this.#ready.mcpUrl);
    const id = random.int(1, 1_000_000);
    const kind = random.pick(['call', 'call', 'cancelled', 'malformed']);
    if (kind === 'cancelled') {
      const leaving = wire.call(id, 'wait');
      await wire.send({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: id, reason: 'enough' },
      });
      await (await leaving).text();
    } else if (kind === 'malformed') {
      const params = mutated({ name: 'the_clerk', arguments: { message: 'say 2' } }, random);
      const response = await wire.send({ jsonrpc: '2.0', id, method: 'tools/call', params });
      const fault = faultOf(response.status, await bodyOf(response, /"(result|error)":/));
      if (fault) this.#fault(`MCP: ${fault}; sent ${JSON.stringify(params).slice(0, 200)}`);
    } else {
      const text = await (await wire.call(id, 'say 5')).text();
      if (!text.includes('word')) this.#fault(`MCP: it answered ${text.slice(0, 200)}`);
    }
    // Some never say that they leave.
    if (random.chance(0.8)) await wire.close();
  }

  async #mcpStdio(random: Random): Promise<void> {
    const call = {
      jsonrpc: '2.0',
      method: 'tools/call',
      params: { name: 'the_clerk', arguments: { message: 'say 2' } },
    };
    const odd = random.chance(0.3) ? mangled(JSON.stringify({ ...call, id: 'odd' }), random).replaceAll('\n', ' ') : '';
    const answer = await this.#stdio(`${odd === '' ? '' : `${odd}\n`}${JSON.stringify({ ...call, id: '$ID' })}`);
    const fault = faultOf(200, answer);
    if (fault || !answer.includes('word')) this.#fault(`MCP over stdio: ${answer.slice(0, 200)}`);
  }
}

function textLengthOf({ payload }: StreamResponse): number {
  if (payload?.$case !== 'artifactUpdate') return 0;
  const parts = payload.value.artifact?.parts ?? [];
  return parts.reduce((sum, { content }) => sum + (content?.$case === 'text' ? content.value.length : 0), 0);
}

function shownError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { name, message: text, cause } = error;
  return `${name}: ${text}${cause === undefined ? '' : ` (${String(cause)})`}`;
}
