import { AgentLoopError, addUsage, type ErrorCode, messageOf, noUsage, type Usage } from '../core/contracts/index.ts';
import type { Question, TurnResult } from '../core/journal/index.ts';
import { callCost, dollars, type PriceList } from '../providers/models/model-info.ts';
import type { PlacedItem } from './batch-item.ts';

interface RowBasics {
  /** Of the item. */
  readonly key: string;
  /** The task of the last attempt: what `millrace show` and `agent.resume` take. */
  readonly taskId: string;
  /** Of all attempts. */
  readonly usage: Usage;
  /** Of all attempts, in US dollars: as the model tells, else by the prices that the batch was given; absent where neither tells. */
  readonly cost?: number;
  /** Of the last attempt. Milliseconds. */
  readonly durationMs: number;
  /** How often the item ran. */
  readonly attempts: number;
  /** A hash of the messages: another prompt under the same key is refused. */
  readonly input: string;
  /** Of the item. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** An item whose turn completed. `T`: what its agent finishes with besides text. */
export interface CompletedRow<T = unknown> extends RowBasics {
  readonly status: 'completed';
  readonly text: string;
  readonly value: T;
}

/** An item whose turn failed, or was cancelled by somebody else. */
export interface FailedRow extends RowBasics {
  readonly status: 'failed' | 'canceled';
  /** What the model said until then. */
  readonly text: string;
  readonly error: { readonly code: ErrorCode; readonly message: string };
}

/** An item whose turn waits for answers: once it has them, the next start of the batch continues it. */
export interface SuspendedRow extends RowBasics {
  readonly status: 'suspended';
  readonly questions: readonly Question[];
}

/** How an item ended: one line of the results. */
export type BatchRow<T = unknown> = CompletedRow<T> | FailedRow | SuspendedRow;

/** What attempts took. */
export interface Spent {
  readonly usage: Usage;
  /** Absent where it is not known. */
  readonly cost: number | undefined;
}

export const nothingSpent: Spent = { usage: noUsage, cost: 0 };

export function addSpent(a: Spent, b: Spent): Spent {
  const cost = a.cost === undefined || b.cost === undefined ? undefined : dollars(a.cost + b.cost);
  return { usage: addUsage(a.usage, b.usage), cost };
}

/** What a turn took, its child turns included. */
export function spentIn(result: TurnResult | undefined, prices: PriceList | undefined): Spent {
  if (!result) return nothingSpent;
  const { usageBy, iterations } = result;
  // No model that it asked has said what it took.
  if (usageBy.length === 0 && iterations > 0) return { usage: result.usage, cost: undefined };
  const costs = usageBy.map(({ model, usage }) => callCost(usage, { model, prices }));
  const cost = costs.reduce((sum, each) => (sum === undefined || each === undefined ? undefined : sum + each), 0);
  return { usage: result.usage, cost: cost === undefined ? undefined : dollars(cost) };
}

/** An attempt of an item that is over. */
export interface Attempt {
  readonly item: PlacedItem;
  readonly taskId: string;
  /** From 1. */
  readonly number: number;
  /** By it and the attempts before it. */
  readonly spent: Spent;
}

export function rowOf<T>(attempt: Attempt, result: TurnResult<T>): BatchRow<T> {
  const basics = basicsOf(attempt, result.durationMs);
  if (result.status === 'completed') return { ...basics, status: 'completed', text: result.text, value: result.value };
  return { ...basics, status: 'suspended', questions: result.questions };
}

/** `result`: of a turn that ended; none of one whose journal is damaged. */
export function failedRowOf(attempt: Attempt, thrown: unknown, result: TurnResult | undefined): FailedRow {
  const code = AgentLoopError.isInstance(thrown) ? thrown.code : 'INTERNAL';
  return {
    ...basicsOf(attempt, result?.durationMs ?? 0),
    status: result?.status === 'canceled' ? 'canceled' : 'failed',
    text: result?.text ?? '',
    error: { code, message: messageOf(thrown) },
  };
}

function basicsOf({ item, taskId, number, spent }: Attempt, durationMs: number): RowBasics {
  const { key, metadata, input } = item;
  const { usage, cost } = spent;
  return {
    key,
    taskId,
    usage,
    ...(cost !== undefined && { cost }),
    durationMs,
    attempts: number,
    input,
    ...(metadata && { metadata }),
  };
}

/** The result of a turn that failed or was cancelled; `undefined` for one that was lost. */
export function resultIn(thrown: unknown): TurnResult | undefined {
  return AgentLoopError.isInstance(thrown) && 'result' in thrown && isResult(thrown.result) ? thrown.result : undefined;
}

function isResult(value: unknown): value is TurnResult {
  return typeof value === 'object' && value !== null && 'usage' in value && 'status' in value;
}

/** One line, in the order in which people look for things. */
export function lineOf<T>(row: BatchRow<T>): string {
  const { key, status, taskId, usage, cost, durationMs, attempts, input, metadata, ...outcome } = row;
  const basics = { taskId, usage, cost, durationMs, attempts, input, metadata };
  return `${JSON.stringify({ key, status, ...outcome, ...basics })}\n`;
}
