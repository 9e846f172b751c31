import { shortestKey } from '../../a2a/server/auth/shortest-key.ts';
import { isLoopbackHost } from '../../a2a/server/loopback.ts';
import { AgentLoopError } from '../../core/contracts/index.ts';
import type { ModelFlags } from '../model-settings.ts';
import type { StoreFlags } from '../store-settings.ts';
import type { Environment } from '../style.ts';
import type { TraceFlags } from '../trace-view.ts';

/** What the command line says about an agent that is served. */
export interface AgentFlags extends ModelFlags {
  /** A module whose default export is an agent; else the model and the tools of the flags are one. */
  readonly agent?: string;
  readonly tools?: string;
  readonly mcp?: readonly string[];
  readonly system?: string;
  readonly leaseMs?: number;
  /** The folder that the built-in file tools read; without it there are none. */
  readonly workspace?: string;
}

/** What the command line says about a server. */
export interface ServeFlags extends AgentFlags, StoreFlags, Pick<TraceFlags, 'otlp'> {
  readonly port: number;
  readonly host: string;
  readonly grpcPort?: number;
  readonly publicUrl?: string;
  /** Names the variable that holds the keys of callers. */
  readonly clientKeysEnv?: string;
  readonly open?: boolean;
  readonly privateWebhooks?: boolean;
  readonly maxTurns?: number;
  readonly maxStreams?: number;
  /** Requests a minute; 0: no limit. */
  readonly rateLimit?: number;
  readonly trustedProxies?: number;
  /** MiB; 0: no limit. */
  readonly maxKept?: number;
  readonly maxHistory?: number;
  readonly log?: boolean;
}

/** A caller and what it shows. */
export interface ClientKey {
  readonly id: string;
  readonly key: string;
}

const variable = 'MILLRACE_CLIENT_KEYS';

/**
 * The keys of callers, from the variable that the flag names, else from `MILLRACE_CLIENT_KEYS`: `alice=KEY,bob=KEY`, or one `KEY`.
 * Errors: `INVALID_CONFIG`, without the keys.
 */
export function clientKeys(
  { clientKeysEnv }: Pick<ServeFlags, 'clientKeysEnv'>,
  env: Environment,
): readonly ClientKey[] {
  if (clientKeysEnv !== undefined && !/^[A-Za-z_]\w*$/.test(clientKeysEnv)) {
    throw invalid('--client-keys-env takes the name of an environment variable, never the keys themselves');
  }
  const text = env[clientKeysEnv ?? variable]?.trim() ?? '';
  if (text === '' && clientKeysEnv === undefined) return [];
  if (text === '') throw invalid(`the environment variable ${clientKeysEnv} of --client-keys-env is not set`);
  const keys = text.split(',').map(clientKey);
  const isTwice = keys.some(({ id }, index) => keys.findIndex((other) => other.id === id) !== index);
  if (isTwice) throw invalid(`${clientKeysEnv ?? variable} names a caller twice; write alice=KEY,bob=KEY`);
  const short = keys.find(({ key }) => key.length < shortestKey);
  if (short)
    throw invalid(
      `the key of ${short.id} in ${clientKeysEnv ?? variable} is too short; take a random one of at least ${shortestKey} characters, e.g. of openssl rand -hex 24`,
    );
  return keys;
}

function clientKey(text: string): ClientKey {
  const [, id = 'client', key = ''] = /^(?:([\w.@-]+)=)?(.*)$/.exec(text.trim()) ?? [];
  return { id, key };
}

/** Refuses flags that nothing would read. Errors: `INVALID_CONFIG`. */
export function checkServeFlags(flags: AgentFlags): void {
  const ofModel = (['baseUrl', 'model', 'apiKeyEnv', 'tools', 'mcp', 'system', 'workspace'] as const).filter(
    (name) => flags[name] !== undefined,
  );
  if (flags.agent !== undefined && ofModel.length > 0) {
    throw invalid(
      '--agent brings its model, its tools and its prompt; leave --base-url, --model, --api-key-env, --tools, --mcp, --system and --workspace out',
    );
  }
  if (flags.tools !== undefined && flags.workspace !== undefined) {
    throw invalid('--tools replaces the built-in tools, so --workspace has no effect; leave one of them out');
  }
}

/** Refuses to be reached from elsewhere by callers whom nobody asks who they are; `cure` says what to do. Errors: `INVALID_CONFIG`. */
export function checkReach(host: string, isGuarded: boolean, cure: string): void {
  if (!isGuarded && !isLoopbackHost(host)) throw invalid(`--host ${host} lets others reach the server; ${cure}`);
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', sentence);
}
