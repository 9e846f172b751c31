import { AgentLoopError, type Lease, type Under } from '../../core/contracts/index.ts';
import { busy, ended, fenced, newerSchema, notFound, olderParent, rewound } from '../store-errors.ts';
import { torn } from './redis-errors.ts';

/** What an error of a script is about. */
export interface ScriptSubject {
  readonly taskId: string;
  readonly lease?: Lease;
  /** The lease of the parent turn, of an acquire. */
  readonly under?: Under | undefined;
  /** The first seq of an append. */
  readonly seq?: number;
}

type MakeError = (subject: ScriptSubject, answer: ScriptAnswer) => AgentLoopError;

/** From the code that a script gives, as `lua/prelude.lua` names them, to the error. */
const errors: ReadonlyMap<number, MakeError> = new Map<number, MakeError>([
  [-1, ({ taskId }) => notFound(taskId)],
  [-2, fencedBy],
  [-3, ({ taskId }) => ended(taskId)],
  [-4, ({ taskId, seq = 0 }, answer) => rewound(taskId, answer.int(1), seq)],
  [-5, ({ taskId }, answer) => busy(taskId, answer.int(1))],
  [-6, ({ taskId }, answer) => newerSchema(taskId, answer.int(1))],
  [-7, ({ taskId }, answer) => torn(taskId, answer.int(1), answer.int(2))],
]);

/** An acquire has no lease yet: there a newer owner of the parent turn refuses. */
function fencedBy({ taskId, lease, under }: ScriptSubject, answer: ScriptAnswer): AgentLoopError {
  if (under) return olderParent(taskId, under, answer.int(1));
  return lease === undefined ? notFound(taskId) : fenced(lease);
}

/** The values that a script gave, the first of them its code. */
export class ScriptAnswer {
  readonly #values: readonly unknown[];

  /** Errors with what the code stands for, unless it is OK. */
  constructor(reply: unknown, subject: ScriptSubject) {
    this.#values = listOf(reply);
    const makeError = errors.get(this.int(0));
    if (makeError !== undefined) throw makeError(subject, this);
  }

  int(index: number): number {
    return Number(this.#values[index]);
  }

  text(index: number): string {
    const value = this.#values[index];
    if (typeof value === 'string') return value;
    throw new AgentLoopError(
      'INTERNAL',
      `A script of the store gave ${typeof value} as its value ${index}, not a string.`,
    );
  }

  texts(index: number): readonly string[] {
    return listOf(this.#values[index]).map(String);
  }

  has(index: number): boolean {
    const value = this.#values[index];
    return value !== undefined && value !== null;
  }

  entry(index: number): StreamEntry {
    return entryOf(this.#values[index]);
  }

  entries(index: number): readonly StreamEntry[] {
    return entriesOf(this.#values[index]);
  }
}

/** An entry of a stream. Ours have one field each. */
export interface StreamEntry {
  readonly id: string;
  readonly field: string;
  readonly value: string;
}

/** The entries of an XRANGE, or of one stream of an XREAD. */
export function entriesOf(reply: unknown): readonly StreamEntry[] {
  return listOf(reply).map(entryOf);
}

export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

function entryOf(reply: unknown): StreamEntry {
  const [id, fields] = listOf(reply);
  const [field, value] = listOf(fields);
  return { id: String(id), field: String(field), value: String(value) };
}
