import { AgentLoopError, invalidConfig, missingPackage, shownValue } from '../../core/contracts/index.ts';
import { loadPackage } from '../load-package.ts';

/** What a store connects with, in the words of `pg`. Other options of `pg` are passed on. */
export interface PostgresConnectionOptions {
  readonly connectionString?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly user?: string | undefined;
  readonly password?: string | (() => string | Promise<string>) | undefined;
  readonly database?: string | undefined;
  readonly ssl?: boolean | object | undefined;
  /** How many connections the store opens at most. Default 10. */
  readonly max?: number | undefined;
  /** How long a statement may take. Milliseconds; default 10,000. */
  readonly query_timeout?: number | undefined;
  /** How long connecting may take. Milliseconds; default 5,000. */
  readonly connectionTimeoutMillis?: number | undefined;
}

/** A URL (`postgres://…`, `postgresql://…`), or options of `pg`. */
export type PostgresTarget = string | PostgresConnectionOptions;

export interface QueryResult<Row> {
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

/** Refuses what is nothing to connect with: `INVALID_CONFIG`. No message has the URL, which may hold a password. */
export function assertPostgresTarget(name: string, target: unknown): asserts target is PostgresTarget {
  if (typeof target === 'object' && target !== null && !Array.isArray(target)) return;
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

/** The password that messages must not have. */
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

/** `require` is for bundlers, which put pg into the bundle where they see it; Node has none in an ES module. */
function loadPg(): PgModule {
  try {
    return require('pg');
  } catch {
    return installedPg();
  }
}

function installedPg(): PgModule {
  try {
    return loadPackage('pg');
  } catch (error) {
    throw missingPackage('pg', error);
  }
}

/** Errors: `INVALID_CONFIG`. */
export function assertSchemaName(schema: unknown): asserts schema is string {
  if (typeof schema === 'string' && /^[a-z_][a-z0-9_]{0,47}$/.test(schema) && !schema.startsWith('pg_')) return;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    `schema is ${shownValue(schema)}; take 1 to 48 of the characters a-z 0-9 _, the first one no digit.`,
  );
}
