import type { Agent } from '../../agent/agent.ts';
import { invalidConfig, shownValue } from '../../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../../stores/check-arguments.ts';
import type { PushOptions } from './push/push-options.ts';
import type { A2AServerOptions } from './server-options.ts';

const optionNames: OptionNames<A2AServerOptions> = {
  agent: true,
  store: true,
  card: true,
  signing: true,
  auth: true,
  authTimeoutMs: true,
  open: true,
  push: true,
  publicUrl: true,
  grpc: true,
  contextOf: true,
  limits: true,
  toolEvents: true,
  extensionEvents: true,
  artifactUrl: true,
  maxInlineArtifactBytes: true,
  cancelDeadlineMs: true,
  callbackTimeoutMs: true,
  maxBodyBytes: true,
  requestTimeoutMs: true,
  rateLimit: true,
  maxStreams: true,
  maxTurns: true,
  heartbeatMs: true,
  recoverEveryMs: true,
  closeMs: true,
  trustedProxies: true,
  logger: true,
  clock: true,
};

const pushNames: OptionNames<PushOptions> = {
  store: true,
  signing: true,
  allowPrivateTargets: true,
  allowHttp: true,
  mostPerTask: true,
  concurrency: true,
  attempts: true,
  timeoutMs: true,
  intervalMs: true,
};

/** Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function assertServerOptions(options: A2AServerOptions): void {
  assertKnownOptions('a2aServer', options, optionNames);
  const { agent, store, publicUrl, push, rateLimit } = options;
  if (!isAgent(agent)) throw invalidConfig('agent must be an Agent', 'make one with agent({ … })');
  if (!store && !agent.options.taskStateStore) {
    throw invalidConfig(
      'a2aServer has no store for turns',
      'give store, e.g. new InMemoryStateStore(), or one that lasts; or the agent a taskStateStore',
    );
  }
  if (publicUrl !== undefined && !/^https?:$/.test(URL.canParse(publicUrl) ? new URL(publicUrl).protocol : '')) {
    throw invalidConfig('publicUrl is not an http or https address', 'give the one that clients use');
  }
  assertNumbers(options, { from: 0, names: ['heartbeatMs', 'recoverEveryMs', 'closeMs', 'trustedProxies'] });
  assertNumbers(options, {
    from: 1,
    names: ['maxBodyBytes', 'requestTimeoutMs', 'maxStreams', 'maxTurns', 'authTimeoutMs'],
  });
  if (rateLimit) assertNumbers(rateLimit, { from: 1, names: ['requests', 'perMs'], of: 'rateLimit.' });
  if (push) assertPush(push);
}

/** Of any copy of this package. */
function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && 'startTurn' in value && 'with' in value;
}

function assertPush(push: PushOptions): void {
  assertKnownOptions('push of a2aServer', push, pushNames);
  if (typeof push.store?.claim !== 'function') {
    throw invalidConfig('push has no store', 'give a PushStore, e.g. new InMemoryPushStore(), or one that lasts');
  }
  assertNumbers(push, { from: 1, names: ['mostPerTask', 'concurrency', 'attempts', 'timeoutMs'], of: 'push.' });
  assertNumbers(push, { from: 0, names: ['intervalMs'], of: 'push.' });
}

interface Range<Name> {
  readonly from: number;
  readonly names: readonly Name[];
  readonly of?: string;
}

function assertNumbers<Options>(options: Options, { from, names, of = '' }: Range<keyof Options & string>): void {
  for (const name of names) {
    const value = options[name];
    if (value === undefined || (Number.isSafeInteger(value) && Number(value) >= from)) continue;
    throw invalidConfig(`${of}${name} is ${shownValue(value)}`, `give a whole number from ${from}, or leave it out`);
  }
}
