import { AgentLoopError, messageOf } from '../../core/contracts/index.ts';

/** What the server or the way to it refuses, by the first word of the reply or of what ioredis says. */
const fullReplies = /^(OOM|MISCONF)\b/;
const refusedCredentials = /^(WRONGPASS|NOAUTH|NOPERM)\b|invalid password|without any password configured/i;
const unknownCommand = /^ERR (unknown command|Unknown subcommand|This instance has cluster support disabled)/i;

/**
 * The error of a command that Redis did not carry out: `FULL` where it has no room, else `UNAVAILABLE`. Says what Redis said; the
 * command itself, which may hold a record or a password, stays out.
 */
export function redisError(thrown: unknown, taskId?: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const said = saidBy(thrown);
  const about = taskId === undefined ? {} : { taskId };
  if (fullReplies.test(said)) {
    return new AgentLoopError(
      'FULL',
      `Redis has no room for more: "${said}"; free memory or disk, or raise its limit.`,
      {
        ...about,
        retryable: true,
      },
    );
  }
  if (refusedCredentials.test(said)) {
    return new AgentLoopError(
      'UNAVAILABLE',
      `Redis refuses this client: "${said}"; check user and password, and the rights of the user.`,
      about,
    );
  }
  if (unknownCommand.test(said)) {
    return new AgentLoopError('UNAVAILABLE', `Redis cannot do this: "${said}"; use Redis 7.0 or newer.`, about);
  }
  return new AgentLoopError('UNAVAILABLE', `Redis does not answer: "${said}"; is it running, and can it be reached?`, {
    ...about,
    retryable: true,
  });
}

export function isNoScript(thrown: unknown): boolean {
  return messageOf(thrown).startsWith('NOSCRIPT');
}

export function unconfirmed(taskId: string, confirmed: number, wanted: number): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `${confirmed} of ${wanted} replicas confirmed the records of task "${taskId}" in time; bring the replicas back, or ask for fewer.`,
    { taskId, retryable: true },
  );
}

/** An append that arrived before an earlier one: retried after it, it succeeds. */
export function overtaken(taskId: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `An append to task "${taskId}" arrived before an earlier one that is still on its way; send it again.`,
    { taskId, retryable: true },
  );
}

export function scriptsLost(taskId: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `Redis had lost the scripts of the store, which are loaded again; send the append to task "${taskId}" again.`,
    { taskId, retryable: true },
  );
}

export function torn(taskId: string, head: number, journal: number): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The head of task "${taskId}" says ${head} records, its journal ends at ${journal}: Redis lost or evicted keys; check its maxmemory-policy and persistence, then delete the task.`,
    { taskId },
  );
}

export function unreadable(taskId: string, entry: string, why: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `Entry ${entry} of the journal of task "${taskId}" cannot be read: ${why}; the journal is kept for inspection.`,
    { taskId },
  );
}

export function storeClosed(store = 'RedisStateStore'): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', `This ${store} was closed; make a new one.`);
}

/** What was said in the end: a cluster's client keeps the reason beside its error, one that ran out of tries names its option. */
function saidBy(thrown: unknown): string {
  if (!(thrown instanceof Error)) return messageOf(thrown);
  if ('lastNodeError' in thrown && thrown.lastNodeError instanceof Error) return saidBy(thrown.lastNodeError);
  if (thrown.name === 'MaxRetriesPerRequestError') return 'no connection, after several tries';
  return thrown.message === '' && 'code' in thrown ? String(thrown.code) : thrown.message;
}
