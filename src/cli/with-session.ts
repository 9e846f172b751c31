import type { CommandHost } from './command-host.ts';
import { Interruption } from './interruption.ts';
import { modelSettings } from './model-settings.ts';
import { openSession, type Session } from './session.ts';
import { lastingStore, turnStore } from './store-settings.ts';
import { wantsExport } from './trace-view.ts';
import type { TurnFlags } from './turn-flags.ts';

export interface OpenedSession {
  readonly session: Session;
  readonly interruption: Interruption;
  /** Cancels a turn: aborted by Ctrl-C, when stdout is closed, and by SIGTERM if no process could resume the turn. */
  readonly signal: AbortSignal;
}

export interface SessionRequest {
  readonly flags: TurnFlags;
  readonly host: CommandHost;
  /** Whether the store has to be there already. Default: it is made. */
  readonly existing?: boolean;
}

/** Opens what a turn needs, as the flags say, for the time of an action. SIGTERM drains the turns of a store that outlives the process. */
export async function withSession(
  { flags, host, existing = false }: SessionRequest,
  action: (opened: OpenedSession) => Promise<void>,
): Promise<void> {
  const { terminal } = host;
  const model = modelSettings(flags, terminal.env);
  const store = existing ? lastingStore(flags, terminal.env) : turnStore(flags, terminal.env);
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  try {
    const traced = flags.trace === true || wantsExport(flags, terminal.env);
    const drains = store.kind !== 'memory';
    const session = await openSession({
      model,
      store,
      flags,
      terminal,
      traced,
      standInDelayMs: 0,
      interruption,
      ...(drains && { shutdown: interruption.byOrder }),
    });
    try {
      const signal = AbortSignal.any([drains ? interruption.byKey : interruption.signal, terminal.stdout.closed]);
      await action({ session, interruption, signal });
    } finally {
      await session.close();
    }
  } finally {
    interruption.close();
  }
}
