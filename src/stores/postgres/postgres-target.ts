import { AgentLoopError, invalidConfig, isObject, messageOf, shownValue } from '../../core/contracts/index.ts';
import { installedPackage } from '../load-package.ts';

/** Connection options, with the names of `pg`. Other options of `pg` are passed on. */
export interface PostgresConnectionOptions {
  /** A URL, replacing the members below. */
  readonly connectionString?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  /** Default: from the environment. */
  readonly user?: string | undefined;
  /** Or a function that returns it, called for each connection. */
  readonly password?: string | (() => string | Promise<string>) | undefined;
  /** Default: from the environment. */
  readonly database?: string | undefined;
  /** As in `pg`. */
  readonly ssl?: boolean | object | undefined;
  /** The maximum number of connections of the store. Default 10. */
  readonly max?: number | undefined;
  /** How long a statement may take. Milliseconds; default 10,000. */
  readonly query_timeout?: number | undefined;
  /** How long connecting may take. Milliseconds; default 5,000. */
  readonly connectionTimeoutMillis?: number | undefined;
}

/** A URL (`postgres://…`, `postgresql://…`), or options of `pg`. */
export type PostgresTarget = string | PostgresConnectionOptions;

interface QueryResult<Row> {
  readonly rows: readonly Row[];
}

export interface PgClient {
  query<Row>(text: string, values?: readonly unknown[]): Promise<QueryResult<Row>>;
  connect(): Promise<unknown>;
  end(): Promise<void>;
  unref(): void;
  on(event: 'error' | 'end', listener: () => void): unknown;
  on(event: 'notification', listener: (message: { readonly payload?: string }) => void): unknown;
}

export interface PooledClient extends Pick<PgClient, 'query'> {
  release(error?: boolean): void;
}

export interface PgPool extends Pick<PgClient, 'query' | 'end'> {
  connect(): Promise<PooledClient>;
  on(event: 'error', listener: () => void): unknown;
  on(event: 'connect', listener: (client: Pick<PgClient, 'on'>) => void): unknown;
}

interface PgModule {
  readonly Pool: new (options: object) => PgPool;
  readonly Client: new (options: object) => PgClient;
}

/** Refuses an invalid target: `INVALID_CONFIG`. No message contains the URL, which may contain a password. */
export function assertPostgresTarget(name: string, target: unknown): asserts target is PostgresTarget {
  if (isObject(target)) return;
  if (typeof target !== 'string' || target === '') {
    throw invalidConfig(`${name} is ${shownValue(target)}`, 'give a URL or options of pg');
  }
  const protocol = /^([a-z][a-z0-9+.-]*):\/\//i.exec(target)?.[1];
  if (protocol !== undefined && /^postgres(ql)?$/.test(protocol) && URL.canParse(target)) return;
  const what = protocol === undefined ? 'no URL' : `no usable URL of the protocol "${protocol}"`;
  throw invalidConfig(`${name} is ${what}`, 'give one that begins with postgres:// or postgresql://');
}

/** Connects at the first statement. */
export function openPool(target: PostgresTarget): PgPool {
  const { Pool } = loadPg();
  const pool = new Pool({ allowExitOnIdle: true, ...connectionOf(target) });
  // A connection that breaks is replaced, be it idle or lent; without listeners it would end the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => void client.on('error', () => {}));
  return pool;
}

export function openConnection(target: PostgresTarget): PgClient {
  const { Client } = loadPg();
  return new Client(connectionOf(target));
}

/** The password, which messages must not contain. */
export function secretOf(target: PostgresTarget): string | undefined {
  const url = typeof target === 'string' ? target : target.connectionString;
  if (typeof target === 'object' && typeof target.password === 'string') return target.password;
  if (url === undefined || !URL.canParse(url)) return undefined;
  const { password, searchParams } = new URL(url);
  return decodeURIComponent(password) || (searchParams.get('password') ?? undefined);
}

function connectionOf(target: PostgresTarget): object {
  const given = typeof target === 'string' ? { connectionString: target } : target;
  const defined = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return {
    application_name: 'millrace',
    keepAlive: true,
    connectionTimeoutMillis: 5_000,
    query_timeout: 10_000,
    ...defined,
  };
}

function loadPg(): PgModule {
  try {
    return require('pg');
  } catch {
    return installedPackage('pg');
  }
}

/** Errors: `INVALID_CONFIG`. */
export function assertSchemaName(schema: unknown): asserts schema is string {
  if (typeof schema === 'string' && /^[a-z_][a-z0-9_]{0,47}$/.test(schema) && !schema.startsWith('pg_')) return;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    `schema is ${shownValue(schema)}; use 1 to 48 of the characters a-z 0-9 _, not starting with a digit.`,
  );
}

/** SQLSTATE classes and codes of PostgreSQL, Appendix A. */
const fullCodes = /^(53100|53200|54000)$/;

const refusedCodes = /^(28|42501|3D000)/;

const missingCodes = /^(42P01|3F000|42703)$/;

/**
 * The error of a failed statement: `FULL` if the server has no space, `SCHEMA` if its tables are missing, else
 * `UNAVAILABLE`. Contains the server's message, without the statement, its values and `secret`.
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
      `PostgreSQL has a row with the same key already: "${said}"; read what was written meanwhile, then try again.`,
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
  return new AgentLoopError('UNAVAILABLE', `This ${store} was closed; create a new one.`);
}

/** Concurrent changes of the same row prevented every attempt. */
export function contended(taskId: string): AgentLoopError {
  return new AgentLoopError('UNAVAILABLE', `Task "${taskId}" changed while it was written to; try again.`, {
    taskId,
    retryable: true,
  });
}

/** Whether the connection broke before the response, so that the statement may have been executed or not. */
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
