import type { CommandHost } from './command-host.ts';
import { Interruption } from './interruption.ts';
import { modelSettings } from './model-settings.ts';
import { openSession, type Session } from './session.ts';
import { storeSettings } from './store-settings.ts';
import { wantsExport } from './trace-view.ts';
import type { TurnFlags } from './turn-flags.ts';

export interface OpenedSession {
  readonly session: Session;
  readonly interruption: Interruption;
  /** Aborted by Ctrl-C, and where nobody reads stdout any more: cancels a turn. */
  readonly signal: AbortSignal;
}

/** Opens what a turn needs, as the flags say, for the time of an action. */
export async function withSession(
  { flags, host }: { readonly flags: TurnFlags; readonly host: CommandHost },
  action: (opened: OpenedSession) => Promise<void>,
): Promise<void> {
  const { terminal } = host;
  const model = modelSettings(flags, terminal.env);
  const store = storeSettings(flags, terminal.env);
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  try {
    const traced = flags.trace === true || wantsExport(flags, terminal.env);
    const session = await openSession({ model, store, flags, terminal, traced, standInDelayMs: 0 });
    try {
      const signal = AbortSignal.any([interruption.signal, terminal.stdout.closed]);
      await action({ session, interruption, signal });
    } finally {
      await session.close();
    }
  } finally {
    interruption.close();
  }
}
