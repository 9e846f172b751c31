import { AgentLoopError, messageOf } from '../../core/contracts/index.ts';

/** SQLSTATE classes and codes of PostgreSQL, Appendix A. */
const fullCodes = /^(53100|53200|54000)$/;
const refusedCodes = /^(28|42501|3D000)/;
const missingCodes = /^(42P01|3F000|42703)$/;

/**
 * The error of a statement that the server did not carry out: `FULL` where it has no room, `SCHEMA` where its tables are missing, else
 * `UNAVAILABLE`. Says what the server said, without the statement, its values and `secret`.
 */
export function postgresError(thrown: unknown, secret: string | undefined, taskId?: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const about = taskId === undefined ? {} : { taskId };
  const code = codeOf(thrown);
  const said = without(secret, saidBy(thrown, code));
  if (fullCodes.test(code)) {
    const message = `PostgreSQL has no room for more: "${said}"; free disk or memory.`;
    return new AgentLoopError('FULL', message, { ...about, retryable: true });
  }
  if (code === '23505') {
    return new AgentLoopError(
      'CONFLICT',
      'PostgreSQL has a row of the same key already; it was written meanwhile.',
      about,
    );
  }
  if (missingCodes.test(code)) return notMigrated(said);
  if (refusedCodes.test(code)) {
    const message = `PostgreSQL refuses this client: "${said}"; check user, password, database, and the rights of the user.`;
    return new AgentLoopError('UNAVAILABLE', message, about);
  }
  const message = `PostgreSQL does not answer: "${said}"; is it running, and can it be reached?`;
  return new AgentLoopError('UNAVAILABLE', message, { ...about, retryable: true });
}

/** `said`: what the server or this version found. */
export function notMigrated(said: string): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The database does not have the tables of this version: ${said}; call \`await store.migrate()\` or run \`millrace store migrate\` once, or give the store \`migrate: true\`.`,
  );
}

export function newerTables(schema: string, found: number, known: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The tables in the schema "${schema}" have version ${found}, this version of millrace knows up to ${known}; update millrace.`,
  );
}

export function damaged(taskId: string, why: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The journal of task "${taskId}" cannot be read: ${why}; restore the database from a backup, or delete the task.`,
    { taskId },
  );
}

export function storeClosed(store: string): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', `This ${store} was closed; make a new one.`);
}

/** Another change of the same row came in between each time. */
export function contended(taskId: string): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', `Task "${taskId}" changed while it was written to; try again.`, {
    taskId,
    retryable: true,
  });
}

/** Whether the connection broke before the server answered, so that the statement may have been carried out or not. */
export function isBroken(thrown: unknown): boolean {
  if (AgentLoopError.isInstance(thrown)) return false;
  // 57P01: the backend was ended. `pg` gives no code where the other side closes.
  return /^(ECONNRESET|EPIPE|57P01)$/.test(codeOf(thrown)) || /^Connection terminated/.test(messageOf(thrown));
}

/** Whether a row of the same key was written at the same time. */
export function isDuplicate(thrown: unknown): boolean {
  return AgentLoopError.isInstance(thrown) && thrown.code === 'CONFLICT';
}

function codeOf(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return '';
  return typeof thrown.code === 'string' ? thrown.code : '';
}

/** Node puts the failures of several addresses into one error without a message. */
function saidBy(thrown: unknown, code: string): string {
  if (thrown instanceof AggregateError && thrown.message === '') return thrown.errors.map(messageOf).join('; ');
  return messageOf(thrown) || code;
}

function without(secret: string | undefined, text: string): string {
  if (secret === undefined || secret === '') return text;
  const encoded = encodeURIComponent(secret);
  return text.replaceAll(secret, '***').replaceAll(encoded, '***');
}
