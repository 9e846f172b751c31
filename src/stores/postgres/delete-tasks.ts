import { childrenIn } from '../child-turns.ts';
import type { PostgresDatabase, Run } from './postgres-database.ts';
import { decoded, encoded, serverNow } from './task-rows.ts';

/** Tasks that one look deletes at most. */
const batch = 500;

/**
 * Deletes a task and its child turns, theirs too: those that its records link to and that name it as their parent. Reads damaged journals. Gives
 * the ids of what was there.
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

/** Deletes tasks whose time is over; those that another process deletes just now are left to it. */
export async function sweepTasks(database: PostgresDatabase): Promise<void> {
  await database.query(
    `with old as (select task_id from $S.task where delete_at <= ${serverNow} limit ${batch} for update skip locked),
     deltas as (delete from $S.delta using old where delta.task_id = old.task_id)
     delete from $S.task using old where task.task_id = old.task_id`,
  );
}

function parsedOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
