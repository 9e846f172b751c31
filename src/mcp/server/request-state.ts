import { createHash } from 'node:crypto';
import type { RequestStateCodec, ServerContext } from '@modelcontextprotocol/server';
import { stableJson } from '../../core/contracts/index.ts';
import type { ServerSdk } from '../load-sdk.ts';
import type { WaitingTurn } from './call-turn.ts';

interface RequestStateOptions {
  readonly sdk: ServerSdk;
  /** At least 32 bytes. */
  readonly key: string | Uint8Array;
  readonly lifetimeMs: number;
}

/**
 * What a client keeps of a turn that waits for answers. It is signed, not encrypted, and valid only for a retry of the same call: `bound` is
 * what both have in common.
 */
export class RequestStates {
  readonly #options: RequestStateOptions;

  constructor(options: RequestStateOptions) {
    this.#options = options;
  }

  write(waiting: WaitingTurn, bound: unknown, context: ServerContext): Promise<string> {
    return this.#codec(bound).mint(waiting, context);
  }

  /** The turn that a retry continues, or undefined for a first call. Rejects with `InvalidParams` for a state that is forged, expired or of another call. */
  async read(bound: unknown, context: ServerContext): Promise<WaitingTurn | undefined> {
    const { ProtocolError, INVALID_PARAMS } = this.#options.sdk;
    const state = context.mcpReq.requestState<string>();
    if (state === undefined) return undefined;
    try {
      return await this.#codec(bound).verify(state, context);
    } catch {
      // As the SDK words it; clients know it by its data.
      throw new ProtocolError(INVALID_PARAMS, 'Invalid or expired requestState', { reason: 'invalid_request_state' });
    }
  }

  #codec(bound: unknown): RequestStateCodec<WaitingTurn> {
    const { sdk, key, lifetimeMs } = this.#options;
    const digest = createHash('sha256').update(stableJson(bound)).digest('base64url');
    return sdk.createRequestStateCodec({ key, ttlSeconds: Math.ceil(lifetimeMs / 1_000), bind: () => digest });
  }
}
