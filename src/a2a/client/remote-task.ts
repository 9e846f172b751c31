import {
  type Artifact,
  type Part,
  Role,
  type StreamResponse,
  type Task,
  TaskState,
  type TaskStatus,
} from '@a2a-js/sdk';
import type { Clock, LLMChunk } from '../../core/contracts/index.ts';
import { outputId } from '../../core/journal/index.ts';
import { onAbort, Timer } from '../../core/streams/index.ts';
import { turnExtension } from '../extensions.ts';
import type { TaskStream } from './remote-client.ts';
import type { RemoteConnection, RequestScope } from './remote-connection.ts';
import { isPassing, remoteBackoff, retrying } from './remote-errors.ts';
import { type RemoteReference, textOfParts } from './remote-progress.ts';

interface Piece {
  readonly artifactId: string;
  text: string;
  /** What its last data part holds. */
  data: unknown;
  /** Whether it begins with something else than text, which is shown on a line of its own. */
  readonly isBlock: boolean;
}

const between = '\n\n';
/** How many characters may be compared or shown anew, beside four times the text and what the server sends itself, before text is held back. */
const freeAnew = 1_048_576;
const answers = /^answer-\d+$/;

/**
 * A task of the other side, as the fold of what it says of it. Its text is that of its artifacts, in their order; where the other side is
 * Millrace, too, it is that of the last answer, as for a turn of ours.
 */
export class RemoteTask {
  #status: TaskStatus | undefined;
  #lastWords = '';
  #pieces: Piece[] = [];
  /** The same by their artifacts; of two with one id the first. */
  readonly #known = new Map<string, Piece>();
  #isTurn = false;
  /** How many were. */
  #anew = 0;
  /** What was shown, while changes are held back. */
  #held: string | undefined;

  get state(): TaskState {
    return this.#status?.state ?? TaskState.TASK_STATE_UNSPECIFIED;
  }

  /** What the last status says. */
  get parts(): readonly Part[] {
    return this.#status?.message?.parts ?? [];
  }

  /** Names the last status: that of a question which is asked only once, however often it is read. */
  get statusKey(): string {
    return statusKeyOf(this.#status);
  }

  /** When the last status was written; empty where the server does not say it. */
  get statusAt(): string {
    return this.#status?.timestamp ?? '';
  }

  /** Of one without artifacts it is what it said last. */
  get text(): string {
    return this.#written ?? (textOfParts(this.parts) || this.#lastWords);
  }

  get #written(): string | undefined {
    if (this.#isTurn) return this.#pieces.findLast(({ artifactId }) => answers.test(artifactId))?.text;
    return this.#pieces.length === 0 ? undefined : this.#pieces.map(({ text }) => text).join(between);
  }

  /** What a turn of Millrace ended with besides its text; `undefined` for nothing. */
  get value(): unknown {
    return this.#isTurn ? this.#pieces.find(({ artifactId }) => artifactId === outputId)?.data : undefined;
  }

  /** Whether there may be text that was written and is not shown. */
  get holdsBack(): boolean {
    return this.#held !== undefined;
  }

  /**
   * Gives what is new of the text; where it does not continue what was shown, all of it, after a discarded attempt. Once that has
   * happened often, as where artifacts are written by turns, what is new is held back until the next whole task, or `rest`.
   */
  take({ payload }: StreamResponse): readonly LLMChunk[] {
    switch (payload?.$case) {
      case 'task':
        this.#hold();
        this.#reset(payload.value);
        return this.rest();
      case 'statusUpdate':
        this.#status = payload.value.status ?? this.#status;
        return [];
      case 'artifactUpdate': {
        const { artifact, append } = payload.value;
        return artifact ? this.#write(pieceOf(artifact), append) : [];
      }
      default:
        return [];
    }
  }

  #write(written: Piece, append: boolean): readonly LLMChunk[] {
    const { artifactId, text, data } = written;
    const latest = this.#pieces.at(-1);
    if (
      this.#held === undefined &&
      append &&
      latest?.artifactId === artifactId &&
      (!this.#isTurn || answers.test(artifactId))
    ) {
      const added = addedTo(latest, written);
      latest.text += added;
      latest.data = data ?? latest.data;
      return added === '' ? [] : [{ type: 'text', text: added }];
    }
    const piece = this.#known.get(artifactId);
    if (this.#held === undefined && !piece && !this.#isTurn) return this.#begin(written);
    const isHeld = this.#held !== undefined;
    this.#hold();
    if (!piece) this.#keep(written);
    else
      Object.assign(piece, {
        text: append ? piece.text + addedTo(piece, written) : text,
        data: data ?? piece.data,
      });
    if (isHeld) return [];
    const shownBefore = this.#held?.length ?? 0;
    const isOfText = !this.#isTurn || answers.test(artifactId);
    if (isOfText && this.#anew > freeAnew + 4 * shownBefore) return [];
    const shown = this.rest();
    const last = shown.at(-1);
    const compared = this.#isTurn ? 0 : shownBefore;
    const cost = shown.length > 1 && last?.type === 'text' ? last.text.length : compared;
    // A server that sends its whole text with each update pays for it itself.
    this.#anew += Math.max(0, cost - text.length);
    return shown;
  }

  /** Keeps the shown text, until `rest` compares it with the whole text. */
  #hold(): void {
    this.#held ??= this.#written ?? '';
  }

  /** A piece behind all others: what is new is not looked for in all that there is. */
  #begin(written: Piece): readonly LLMChunk[] {
    const text = this.#pieces.length > 0 ? between + written.text : written.text;
    this.#keep(written);
    return text === '' ? [] : [{ type: 'text', text }];
  }

  #keep(piece: Piece): void {
    this.#pieces.push(piece);
    if (!this.#known.has(piece.artifactId)) this.#known.set(piece.artifactId, piece);
  }

  /**
   * Takes the task as its server keeps it at its end, and gives the difference to what was shown. A server that kept no artifacts says
   * nothing of the text: what was streamed stays.
   */
  compare(task: Task): readonly LLMChunk[] {
    if (task.artifacts.length > 0 || this.#pieces.length === 0)
      return this.take({ payload: { $case: 'task', value: task } });
    this.#status = task.status ?? this.#status;
    return this.rest();
  }

  #reset({ status, artifacts, history, metadata }: Task): void {
    this.#status = status;
    this.#isTurn = metadata?.[turnExtension] !== undefined;
    this.#pieces = [];
    this.#known.clear();
    for (const artifact of artifacts) this.#keep(pieceOf(artifact));
    this.#lastWords = textOfParts(history.findLast(({ role }) => role === Role.ROLE_AGENT)?.parts ?? []);
  }

  /** Gives what was held back. Texts of statuses are not shown as they come. */
  rest(): readonly LLMChunk[] {
    const before = this.#held;
    this.#held = undefined;
    const now = this.#written ?? '';
    if (before === undefined || now === before) return [];
    if (now.startsWith(before)) return [{ type: 'text', text: now.slice(before.length) }];
    const reason = 'the remote agent began its answer anew';
    return [
      { type: 'attempt', state: 'void', reason },
      { type: 'attempt', state: 'begin' },
      ...(now === '' ? [] : [{ type: 'text', text: now } as const]),
    ];
  }
}

/** Names a status. */
export function statusKeyOf(status: TaskStatus | undefined): string {
  return status?.message?.messageId || status?.timestamp || '';
}

function pieceOf({ artifactId, parts }: Artifact): Piece {
  const data = parts.findLast(({ content }) => content?.$case === 'data')?.content?.value;
  const isBlock = parts.length > 0 && parts[0]?.content?.$case !== 'text';
  return { artifactId, text: textOfParts(parts), data, isBlock };
}

/** What is to be appended, so that a piece written at once and one written in chunks read the same. */
function addedTo(piece: Piece, { text, isBlock }: Piece): string {
  return isBlock && piece.text !== '' && !piece.text.endsWith('\n') ? `\n${text}` : text;
}

/** Whether the other side does nothing more by itself. */
export function isStill(state: TaskState): boolean {
  return (
    state === TaskState.TASK_STATE_COMPLETED ||
    state === TaskState.TASK_STATE_FAILED ||
    state === TaskState.TASK_STATE_CANCELED ||
    state === TaskState.TASK_STATE_REJECTED ||
    state === TaskState.TASK_STATE_INPUT_REQUIRED ||
    state === TaskState.TASK_STATE_AUTH_REQUIRED
  );
}

/** Calls `onSilence` once a task has neither written nor changed its status for `ms`. */
export class ProgressWatch {
  readonly #clock: Clock;
  #status = '';
  #changedAt: number;
  readonly #timer: Timer;

  constructor(clock: Clock, ms: number, onSilence: () => void) {
    this.#clock = clock;
    this.#changedAt = clock.now();
    this.#timer = new Timer(clock);
    // One timer, however often the task changes.
    const look = () => {
      const leftMs = this.#changedAt + ms - clock.now();
      if (leftMs <= 0) onSilence();
      else this.#timer.set(leftMs, look);
    };
    this.#timer.set(ms, look);
  }

  note(status: string, hasWritten: boolean): void {
    if (!hasWritten && status === this.#status) return;
    this.#status = status;
    this.#changedAt = this.#clock.now();
  }

  stop(): void {
    this.#timer.close();
  }
}

interface FollowRemoteOptions extends RequestScope {
  readonly clock: Clock;
  readonly silenceMs: number;
}

interface FollowedUpdate {
  readonly update: StreamResponse;
  /**
   * `sent`: of the stream that the message opened, unbroken so far. `asked`: the task as the server keeps it. `subscribed`: of a later
   * stream, which may repeat or lack what was written while it was opened.
   */
  readonly from: 'sent' | 'asked' | 'subscribed';
}

/**
 * What happens to a task, for as long as it is read: first on the stream that its message opened; where that breaks, ends early or falls
 * silent, and where there is none, the server is asked for the task and the stream is opened anew. Errors: what the server answers;
 * `PROVIDER_…` once it could not be reached for `silenceMs`.
 */
export async function* followRemoteTask(
  connection: RemoteConnection,
  { taskId, messageId = '' }: RemoteReference & { readonly taskId: string },
  options: FollowRemoteOptions,
): AsyncGenerator<FollowedUpdate, never> {
  const { clock, signal, silenceMs } = options;
  const backoff = remoteBackoff();
  const sent = connection.streams.take(messageId);
  if (sent) for await (const update of read(taskId, sent, options)) yield { update, from: 'sent' };
  let known = '';
  for (let awaySince: number | undefined; ; await backoff.pause(clock, signal)) {
    const askedAt = clock.now();
    let stream: TaskStream | undefined;
    try {
      const value = await connection.task(taskId, options);
      const now = progressOf(value);
      if (now !== known) backoff.reset();
      known = now;
      yield { update: { payload: { $case: 'task', value } }, from: 'asked' };
      stream = await connection.follow(taskId, options);
      awaySince = undefined;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // From the first request in vain: a server that had nothing to say for a while was not away.
      awaySince ??= askedAt;
      if (!isPassing(error) || clock.now() - awaySince >= silenceMs) throw error;
    }
    if (!stream) continue;
    for await (const update of read(taskId, stream, options)) {
      if (update.payload?.$case !== 'task') backoff.reset();
      yield { update, from: 'subscribed' };
    }
  }
}

/** Changes with every update that a server keeps. */
function progressOf({ status, artifacts }: Task): string {
  const parts = artifacts.map((artifact) => artifact.parts.length).join();
  return `${status?.state} ${status?.message?.messageId} ${status?.timestamp} ${parts}`;
}

/** Until the stream ends, breaks or is silent for `silenceMs`: the task itself says more. Closed when its reader leaves. */
async function* read(
  taskId: string,
  { updates, close }: TaskStream,
  { clock, silenceMs, signal }: FollowRemoteOptions,
): AsyncGenerator<StreamResponse> {
  const silence = new Timer(clock);
  silence.set(silenceMs, close);
  const leave = onAbort(signal, close);
  try {
    if (signal.aborted) throw signal.reason;
    for await (const update of updates) {
      silence.stop();
      const { payload } = update;
      const of = payload?.$case === 'task' ? payload.value.id : payload?.$case !== 'message' && payload?.value.taskId;
      // What a server says of other tasks is not shown as this one. One that leaves the id out means the task that was asked for.
      if (!of || of === taskId) yield update;
      silence.set(silenceMs, close);
    }
  } catch {
    if (signal.aborted) throw signal.reason;
  } finally {
    silence.close();
    leave();
    close();
  }
}

/** A server may tell its subscribers of an end before it has written it down. */
const settleMs = 5_000;

/**
 * The task as the server keeps it at its end, to compare with what was streamed. `undefined` where the server keeps no tasks, or does
 * not show the end within five seconds: what was streamed counts then. Errors: as `followRemoteTask`, unless the stream was unbroken.
 */
export async function taskAtEnd(
  connection: RemoteConnection,
  taskId: string,
  {
    isEnd,
    isUnbroken,
    ...options
  }: FollowRemoteOptions & { readonly isEnd: (task: Task) => boolean; readonly isUnbroken: boolean },
): Promise<Task | undefined> {
  const { clock, signal, silenceMs } = options;
  const backoff = remoteBackoff();
  for (const until = clock.now() + settleMs; ; await backoff.pause(clock, signal)) {
    try {
      const task = await retrying(() => connection.task(taskId, options), { clock, signal, forMs: silenceMs });
      if (isEnd(task)) return task;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (isUnbroken || !isPassing(error)) return undefined;
      throw error;
    }
    if (clock.now() >= until) return undefined;
  }
}
