import { createHash } from 'node:crypto';
import type { Command, PostOptions, TaskQuery, TaskState, TaskSummary } from '../../core/contracts/index.ts';
import { isKnownType, type JournalRecord } from '../../core/journal/index.ts';
import { childrenIn, ended, notFound, parsedOrNothing, unknownRecord } from '../store-rules.ts';
import { summaryOf } from '../task-summary.ts';
import type { PostgresDatabase, Run } from './postgres-database.ts';
import { contended, damaged, isDuplicate } from './postgres-target.ts';

/** The clock of the server, in milliseconds since 1970. `now()` would stand still while a statement waits for a lock. */
export const serverNow = '(extract(epoch from clock_timestamp()) * 1000)::int8';

/** The columns of `$S.task t` that make a `HeadRow`. */
export const headColumns = `t.task_id, t.n::float8, t.context_id, t.agent_id, t.parent_id, t.schema, t.state, t.ended, t.seq, t.call_seq,
  t.commands, t.bytes::float8, t.epoch::float8, t.owner, t.expires::float8, t.lease_ms::float8, t.abandoned_at::float8, t.under_id,
  t.under_epoch::float8, t.created_at::float8, t.updated_at::float8, t.status_at::float8, t.due_at::float8,
  ${serverNow}::float8 as now`;

/** A task without its journal. Times are in milliseconds since 1970. */
export interface HeadRow {
  readonly task_id: string;
  /** The number of the task's creation: distinguishes it from a deleted task with the same id. */
  readonly n: number;
  readonly context_id: string;
  readonly agent_id: string;
  readonly parent_id: string | null;
  readonly schema: number;
  readonly state: TaskState;
  readonly ended: boolean;
  readonly seq: number;
  /** The seq of the open model call's `llm.start`; 0 for none. */
  readonly call_seq: number;
  readonly commands: number;
  readonly bytes: number;
  readonly epoch: number;
  readonly owner: string | null;
  readonly expires: number;
  readonly lease_ms: number;
  readonly abandoned_at: number | null;
  readonly under_id: string | null;
  readonly under_epoch: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly status_at: number;
  /** Until when the turn backs off; 0 if it does not. */
  readonly due_at: number;
  /** The time of the server. */
  readonly now: number;
}

export function summaryOfRow(row: HeadRow): TaskSummary {
  return summaryOf({
    taskId: row.task_id,
    contextId: decoded(row.context_id),
    agentId: decoded(row.agent_id),
    parentTaskId: row.parent_id === null ? undefined : decoded(row.parent_id),
    state: row.state,
    seq: row.seq,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    statusAt: row.status_at,
    dueAt: row.due_at,
    held: row.owner !== null && row.now < row.expires,
    bytes: row.bytes,
  });
}

export function recordOf(text: string, taskId: string, seq: number): JournalRecord {
  const record = parsed<JournalRecord>(text, taskId, `record ${seq} is damaged`);
  if (record.seq !== undefined && record.seq !== seq) throw damaged(taskId, `record ${record.seq} stands at ${seq}`);
  if (!isKnownType(record.type)) throw unknownRecord(taskId, seq, record.type);
  if (record.type === 'turn.started' && record.taskId !== taskId) {
    throw damaged(taskId, `it is the journal of task "${record.taskId}"`);
  }
  return record;
}

export function parsed<T>(text: string, taskId: string, why: string): T {
  try {
    return JSON.parse(text);
  } catch {
    throw damaged(taskId, why);
  }
}

/** Characters that PostgreSQL refuses in a string: U+0000 and lone surrogates. */
const refused = /[\0\p{Surrogate}]/u;

/** Encodes a string for PostgreSQL: one with refused characters is stored as JSON, which begins with a quote. */
export function encoded(text: string): string {
  return text.startsWith('"') || refused.test(text) ? JSON.stringify(text) : text;
}

export function decoded(text: string): string {
  return text.startsWith('"') ? JSON.parse(text) : text;
}

interface ListStatement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** `TaskStateStore.list` as one statement; each of its orders has an index. */
export function listStatement(query: TaskQuery): ListStatement {
  const {
    state,
    contextId,
    parentTaskId,
    agentId,
    byStatus,
    roots = false,
    afterTaskId,
    runnable = false,
    dueBy = Number.POSITIVE_INFINITY,
    limit = 50,
  } = query;
  const values: unknown[] = [];
  const conditions: string[] = [];
  const given = (value: unknown) => `$${values.push(value)}`;
  const equals = (column: string, value: string) => {
    const place = given(encoded(value));
    conditions.push(`md5(t.${column}) = md5(${place}) and t.${column} = ${place}`);
  };
  if (state !== undefined) conditions.push(`t.state = ${given(state)}`);
  if (contextId !== undefined) equals('context_id', contextId);
  if (parentTaskId !== undefined) conditions.push(`t.parent_id = ${given(encoded(parentTaskId))}`);
  if (agentId !== undefined) conditions.push(`t.agent_id = ${given(encoded(agentId))}`);
  if (roots) conditions.push('t.parent_id is null');
  if (afterTaskId !== undefined) conditions.push(`t.n < (select n from $S.task where task_id = ${given(afterTaskId)})`);
  if (byStatus !== undefined) {
    const { group, after, since } = byStatus;
    equals('context_group', group);
    if (since !== undefined) conditions.push(`t.status_at >= ${given(Date.parse(since))}`);
    if (after !== undefined) {
      const place = `(${given(Date.parse(after.statusAt))}::int8, ${given(encoded(after.taskId))}::text)`;
      conditions.push(`(t.status_at, t.task_id) < ${place}`);
    }
  }
  const order = byStatus === undefined ? 't.n desc' : 't.status_at desc, t.task_id desc';
  const most = limit > 0 ? Math.min(Math.ceil(limit), 2 ** 31 - 1) : 0;
  const select = (what: string, from: string, where: readonly string[]) =>
    `select ${what} from ${from} t ${where.length === 0 ? '' : `where ${where.join(' and ')}`} order by ${order} limit ${most}`;
  if (!runnable) return { text: select(headColumns, '$S.task', conditions), values };
  // Each part has its index: turns that back off until later are not read.
  const open = `t.state in ('submitted', 'working') and not t.ended and (t.owner is null or t.expires <= ${serverNow})`;
  const backsOff =
    dueBy < Number.MAX_SAFE_INTEGER
      ? `t.due_at > 0 and t.due_at <= ${given(Math.floor(Math.max(dueBy, 0)))}::int8`
      : 't.due_at > 0';
  const parts = ['t.due_at = 0', backsOff].map((part) => `(${select('*', '$S.task', [...conditions, open, part])})`);
  return { text: select(headColumns, `(${parts.join(' union all ')})`, []), values };
}

/** The row of the task puts commands in one order: a caller that waits for it continues after the number written meanwhile. */
const postStatement = `
with head as (
  update $S.task set commands = commands + 1, bytes = bytes + $4::int8
  where task_id = $1 and not ended and ($5::int is null or commands < $5::int)
    and not exists (select from $S.command where task_id = $1 and id = $2)
  returning commands)
insert into $S.command (task_id, n, id, command) select $1, commands, $2, $3 from head returning n`;

const standingStatement = `
select t.ended, t.commands, c.command from $S.task t left join $S.command c on c.task_id = t.task_id and c.id = $2 where t.task_id = $1`;

interface Standing {
  readonly ended: boolean;
  readonly commands: number;
  readonly command: string | null;
}

interface Post {
  readonly taskId: string;
  readonly command: Command;
  readonly options: PostOptions;
}

/** `TaskStateStore.post`. */
export async function postCommand(
  database: PostgresDatabase,
  { taskId, command, options: { most = Number.POSITIVE_INFINITY } }: Post,
): Promise<Command | undefined> {
  // Of a fixed length: a key of an index is limited.
  const id = createHash('sha256').update(command.id).digest('base64url');
  const text = JSON.stringify(command);
  const limit = Number.isFinite(most) ? Math.max(0, Math.floor(most)) : null;
  for (let tries = 0; tries < 5; tries++) {
    try {
      const values = [taskId, id, text, Buffer.byteLength(text), limit];
      const posted = await database.query(postStatement, values, taskId);
      if (posted.length > 0) return command;
    } catch (error) {
      if (!isDuplicate(error)) throw error;
    }
    const [standing] = await database.query<Standing>(standingStatement, [taskId, id], taskId);
    if (standing === undefined) throw notFound(taskId);
    if (standing.ended) throw ended(taskId);
    if (standing.command !== null) return parsed<Command>(standing.command, taskId, 'a command is damaged');
    if (limit !== null && standing.commands >= limit) return undefined;
  }
  throw contended(taskId);
}

/** The maximum number of tasks per deletion. */
const batch = 500;

/**
 * Deletes a task and its descendants: the child turns that its records link to, or that name it as their parent. Reads damaged journals. Returns
 * the ids of the deleted tasks.
 */
export async function deleteTask(run: Run, taskId: string): Promise<readonly string[]> {
  const gone: string[] = [];
  const remove = async (member: string): Promise<void> => {
    // Locks it: an append that is on its way is waited for, and its records are seen.
    const found = await run('select 1 from $S.task where task_id = $1 for update', [member]);
    if (found.length === 0) return;
    const rows = await run<{ readonly record: string }>(
      `select record from $S.record where task_id = $1 and record like '%"child"%' order by seq`,
      [member],
    );
    const links = childrenIn(rows.map(({ record }) => parsedOrNothing(record)));
    const children = await run<{ readonly task_id: string }>(
      'select task_id from $S.task where task_id = any($1::text[]) and parent_id = $2 and task_id <> $2',
      [links, encoded(member)],
    );
    await run('delete from $S.task where task_id = $1', [member]);
    await run('delete from $S.delta where task_id = $1', [member]);
    gone.push(member);
    for (const child of children) await remove(decoded(child.task_id));
  };
  await remove(taskId);
  return gone;
}

/** Deletes expired tasks; skips those that another process is deleting. */
export async function sweepTasks(database: PostgresDatabase): Promise<void> {
  await database.query(
    `with old as (select task_id from $S.task where delete_at <= ${serverNow} limit ${batch} for update skip locked),
     deltas as (delete from $S.delta using old where delta.task_id = old.task_id)
     delete from $S.task using old where task.task_id = old.task_id`,
  );
}
