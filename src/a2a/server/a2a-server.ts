import { messageOf, missingPackage } from '../../core/contracts/index.ts';
import { assertServerOptions } from './check-server-options.ts';
import type { A2AServer } from './running-server.ts';
import type { A2AServerOptions } from './server-options.ts';

/**
 * Serves an agent over A2A: JSON-RPC, HTTP+JSON, and gRPC where that is asked for, each in the versions 1.0 and 0.3.
 *
 * Turns belong to their tasks: clients come and go, and turns abandoned by a process are resumed by the next. Nothing listens and
 * nothing runs before `listen`, or `start` where `app` is mounted elsewhere. What is wrong with a request is answered in the protocol's
 * own form, without internal details.
 *
 * Memory: what streams hold for readers that are slower than their turns, and 10,000 callers that are counted. Errors: `INVALID_CONFIG`,
 * `MISSING_PACKAGE`, naming what to install.
 */
export async function a2aServer(options: A2AServerOptions): Promise<A2AServer> {
  assertServerOptions(options);
  const { createServer } = await load();
  return createServer(options);
}

const required: readonly string[] = ['@a2a-js/sdk', 'express'];

/** What the server needs is loaded by the first one. */
async function load(): Promise<typeof import('./running-server.ts')> {
  try {
    return await import('./running-server.ts');
  } catch (cause) {
    const missing = /Cannot find (?:package|module) '((?:@[^/']+\/)?[^/']+)/.exec(messageOf(cause))?.[1];
    if (missing === undefined || missing.startsWith('.')) throw cause;
    throw missingPackage(missing, cause, required.includes(missing) ? required.join(' ') : missing);
  }
}
