import { AgentLoopError, messageOf } from '../../core/contracts/index.ts';

/** `errno` of a full disk, a quota and a file size limit, and of a write that LMDB could do only in part (EIO): mostly the same. */
const fullErrnos: ReadonlySet<unknown> = new Set([28, 122, 27, 5, 'ENOSPC', 'EDQUOT', 'EFBIG']);

const mdb = { pageNotFound: -30797, corrupted: -30796, versionMismatch: -30794, invalid: -30793, mapFull: -30792 };

/** What LMDB threw, in the words of the store contract. An `AgentLoopError` stays as it is. */
export function storeError(thrown: unknown, path: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const code = codeOf(thrown);
  if (code === mdb.mapFull || fullErrnos.has(code)) return full(path, thrown);
  if (code === mdb.versionMismatch) return newerFormat(path, thrown);
  if (code === mdb.invalid || code === mdb.corrupted || code === mdb.pageNotFound) return unreadable(path, thrown);
  return new AgentLoopError(
    'UNAVAILABLE',
    `The LMDB store at "${path}" did not answer: ${messageOf(thrown)}; check that the folder exists and that this process may write to it.`,
    { retryable: true, cause: thrown },
  );
}

export function closedStore(path: string): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', `The LMDB store at "${path}" was closed; create a new one to continue.`);
}

export function forgottenWrite(path: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The LMDB store at "${path}" was opened by another process at the same moment, which undid this write; try it again.`,
    { retryable: true },
  );
}

export function lostFile(path: string): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The folder of the LMDB store at "${path}" was deleted or replaced while it was open, so nothing that is written now is kept; put it back and make a new store.`,
  );
}

/** `layout`: the version of the keys and heads in the file. */
export function newerLayout(path: string, layout: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The LMDB store at "${path}" has layout ${layout}, which this version cannot read; update millrace.`,
  );
}

/** An entry that is not what this store writes; `what` names it. */
export function damaged(taskId: string, what: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The journal of task "${taskId}" cannot be read: ${what}; restore the store from a backup, or delete the task.`,
    { taskId },
  );
}

export function missingLmdb(cause: unknown): AgentLoopError {
  const [why] = messageOf(cause).split('\n', 1);
  return new AgentLoopError(
    'MISSING_PACKAGE',
    `The package "lmdb" cannot be loaded (${why}); run \`npm install lmdb\`, with optional packages, on this platform, beside a bundle too: its native part cannot be put into one.`,
    { cause },
  );
}

/** The `code` of anything that was thrown, where it has one. */
export function codeOf(thrown: unknown): unknown {
  return typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : undefined;
}

function full(path: string, cause: unknown): AgentLoopError {
  return new AgentLoopError(
    'FULL',
    `The disk of the LMDB store at "${path}" took no more: it is full, or it fails; nothing of this was written. Free space and try again.`,
    { retryable: true, cause },
  );
}

export function newerFormat(path: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The LMDB store at "${path}" was written by another version of LMDB; update millrace, or give another path.`,
    { cause },
  );
}

export function unreadable(path: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The file at "${path}" is damaged or no LMDB store; restore it from a backup, or give another path.`,
    { cause },
  );
}
