import { createHash } from 'node:crypto';
import type { Command, PostOptions } from '../../core/contracts/index.ts';
import { ended, notFound } from '../store-errors.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import { contended, isDuplicate } from './postgres-errors.ts';
import { parsed } from './task-rows.ts';

/** The row of the task puts commands in one order: whoever waits for it numbers on from what was written meanwhile. */
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

export interface Post {
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
