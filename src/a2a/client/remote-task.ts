import { type Part, Role, type StreamResponse, type Task, TaskState, type TaskStatus } from '@a2a-js/sdk';
import type { LLMChunk } from '../../providers/interfaces.ts';
import { textOfParts } from './remote-parts.ts';

interface Piece {
  readonly artifactId: string;
  text: string;
}

const between = '\n\n';

/** A task of the other side, as the fold of what it says of it. Its text is that of its artifacts, in their order. */
export class RemoteTask {
  #status: TaskStatus | undefined;
  #lastWords = '';
  #pieces: Piece[] = [];

  get state(): TaskState {
    return this.#status?.state ?? TaskState.TASK_STATE_UNSPECIFIED;
  }

  /** What the last status says. */
  get parts(): readonly Part[] {
    return this.#status?.message?.parts ?? [];
  }

  /** Names the last status: that of a question which is asked only once, however often it is read. */
  get statusKey(): string {
    return this.#status?.message?.messageId || this.#status?.timestamp || '';
  }

  /** Of one without artifacts it is what it said last. */
  get text(): string {
    if (this.#pieces.length === 0) return textOfParts(this.parts) || this.#lastWords;
    return this.#pieces.map(({ text }) => text).join(between);
  }

  /** Gives what is new of the text; where it does not go on from what there was, all of it behind a discarded attempt. */
  take({ payload }: StreamResponse): readonly LLMChunk[] {
    switch (payload?.$case) {
      case 'task':
        return this.#shown(() => this.#reset(payload.value));
      case 'statusUpdate':
        this.#status = payload.value.status ?? this.#status;
        return [];
      case 'artifactUpdate': {
        const { artifact, append } = payload.value;
        return artifact ? this.#write(artifact.artifactId, textOfParts(artifact.parts), append) : [];
      }
      default:
        return [];
    }
  }

  #write(artifactId: string, text: string, append: boolean): readonly LLMChunk[] {
    const last = this.#pieces.at(-1);
    if (append && last?.artifactId === artifactId) {
      last.text += text;
      return text === '' ? [] : [{ type: 'text', text }];
    }
    return this.#shown(() => {
      const piece = this.#pieces.find((each) => each.artifactId === artifactId);
      if (!piece) this.#pieces.push({ artifactId, text });
      else piece.text = append ? piece.text + text : text;
    });
  }

  #reset({ status, artifacts, history }: Task): void {
    this.#status = status;
    this.#pieces = artifacts.map(({ artifactId, parts }) => ({ artifactId, text: textOfParts(parts) }));
    this.#lastWords = textOfParts(history.findLast(({ role }) => role === Role.ROLE_AGENT)?.parts ?? []);
  }

  /** What was shown before `change`, and what is to be shown after it. Texts of statuses are not shown as they come. */
  #shown(change: () => void): readonly LLMChunk[] {
    const before = this.#pieces.length === 0 ? '' : this.text;
    change();
    const now = this.#pieces.length === 0 ? '' : this.text;
    if (now === before) return [];
    if (now.startsWith(before)) return [{ type: 'text', text: now.slice(before.length) }];
    const reason = 'the remote agent wrote its answer anew';
    return [
      { type: 'attempt', state: 'void', reason },
      { type: 'attempt', state: 'begin' },
      ...(now === '' ? [] : [{ type: 'text', text: now } as const]),
    ];
  }
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
