import {
  type Artifact,
  type Part,
  Role,
  type StreamResponse,
  type Task,
  TaskState,
  type TaskStatus,
} from '@a2a-js/sdk';
import type { LLMChunk } from '../../core/contracts/index.ts';
import { outputId } from '../../core/journal/index.ts';
import { turnExtension } from '../extensions.ts';
import { textOfParts } from './remote-parts.ts';

interface Piece {
  readonly artifactId: string;
  text: string;
  /** What its last data part holds. */
  data: unknown;
  /** Whether it begins with something else than text, which is shown on a line of its own. */
  readonly isBlock: boolean;
}

const between = '\n\n';
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

  /** Gives what is new of the text; where it does not continue what was shown, all of it, after a discarded attempt. */
  take({ payload }: StreamResponse): readonly LLMChunk[] {
    switch (payload?.$case) {
      case 'task':
        return this.#shown(() => this.#reset(payload.value));
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
    const last = this.#pieces.at(-1);
    if (append && last?.artifactId === artifactId && (!this.#isTurn || answers.test(artifactId))) {
      const added = addedTo(last, written);
      last.text += added;
      last.data = data ?? last.data;
      return added === '' ? [] : [{ type: 'text', text: added }];
    }
    const piece = this.#known.get(artifactId);
    if (!piece && !this.#isTurn) return this.#begin(written);
    return this.#shown(() => {
      if (!piece) this.#keep(written);
      else
        Object.assign(piece, {
          text: append ? piece.text + addedTo(piece, written) : text,
          data: data ?? piece.data,
        });
    });
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
    return [];
  }

  #reset({ status, artifacts, history, metadata }: Task): void {
    this.#status = status;
    this.#isTurn = metadata?.[turnExtension] !== undefined;
    this.#pieces = [];
    this.#known.clear();
    for (const artifact of artifacts) this.#keep(pieceOf(artifact));
    this.#lastWords = textOfParts(history.findLast(({ role }) => role === Role.ROLE_AGENT)?.parts ?? []);
  }

  /** What was shown before `change`, and what is to be shown after it. Texts of statuses are not shown as they come. */
  #shown(change: () => void): readonly LLMChunk[] {
    const before = this.#written ?? '';
    change();
    const now = this.#written ?? '';
    if (now === before) return [];
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
