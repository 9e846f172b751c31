import type { Command } from 'commander';
import { Chat } from '../chat.ts';
import type { CommandHost } from '../command-host.ts';
import { Interruption } from '../interruption.ts';
import { type LineOptions, pipedLines, typedLines } from '../line-source.ts';
import { modelSettings } from '../model-settings.ts';
import { openSession, type Session } from '../session.ts';
import { storeSettings } from '../store-settings.ts';
import type { Terminal } from '../terminal.ts';
import { addNewTurnFlags, type NewTurnFlags } from '../turn-flags.ts';

const interruptedByKey = 130;

/** Adds `millrace chat`: many turns in the terminal. */
export function addChatCommand(program: Command, host: CommandHost): void {
  addNewTurnFlags(program.command('chat'))
    .summary('talk: many turns, one conversation')
    .description('Talk in the terminal. Ctrl-C stops an answer; at the prompt it leaves. Reads lines from a pipe, too.')
    .action((flags: NewTurnFlags) => chat(flags, host));
}

async function chat(flags: NewTurnFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  const model = modelSettings(flags, terminal.env);
  const store = storeSettings(flags, terminal.env);
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  try {
    const start = { model, store, flags, terminal, interruption };
    const session = await openSession({ ...start, traced: true, standInDelayMs: 25 });
    try {
      const talk = new Chat({ session, terminal, flags });
      if (host.stdin.isTTY) greet(session, terminal);
      host.exitCode = await (host.stdin.isTTY ? talkTyped : talkPiped)(talk, interruption, host);
    } finally {
      await session.close();
    }
  } finally {
    interruption.close();
  }
}

/** Ctrl-C stops the turn that runs, and the talk goes on; SIGTERM ends both. */
async function talkTyped(talk: Chat, interruption: Interruption, host: CommandHost): Promise<number> {
  const { style, stdout } = host.terminal;
  const options: LineOptions = {
    input: host.stdin,
    output: stdout.isTerminal ? host.stdout : host.stderr,
    prompt: `${style.cyan(style.glyphs.prompt)} `,
    signal: () => interruption.signal,
  };
  for await (const entry of typedLines(options)) {
    const { goOn } = await take(entry.trim(), { talk, interruption, host });
    if (!goOn) break;
    if (interruption.exitCode === interruptedByKey) interruption.reset();
    options.output.write('\n');
  }
  return interruption.exitCode ?? 0;
}

/** An interruption ends the talk; a turn that failed does not, but shows in the exit code. */
async function talkPiped(talk: Chat, interruption: Interruption, host: CommandHost): Promise<number> {
  let worst = 0;
  for await (const entry of pipedLines({ input: host.stdin, signal: () => interruption.signal })) {
    const { goOn, exitCode } = await take(entry.trim(), { talk, interruption, host });
    worst = Math.max(worst, exitCode);
    if (!goOn) break;
  }
  return interruption.exitCode ?? worst;
}

interface Talking {
  readonly talk: Chat;
  readonly interruption: Interruption;
  readonly host: CommandHost;
}

async function take(entry: string, { talk, interruption, host }: Talking) {
  if (entry === '') return { goOn: true, exitCode: 0 };
  if (/^\/\w+$/.test(entry)) return { goOn: await talk.command(entry), exitCode: 0 };
  const exitCode = await talk.say(entry, interruption);
  return { goOn: !host.terminal.stdout.closed.aborted, exitCode };
}

function greet(session: Session, { stderr, errorStyle }: Terminal): void {
  const { bold, dim, glyphs } = errorStyle;
  const about = `${session.modelLabel} ${glyphs.dot} ${session.tools.length} tools ${glyphs.dot} /help`;
  void stderr.write(`${bold('millrace chat')} ${dim(`${glyphs.dot} ${about}`)}\n\n`);
}
