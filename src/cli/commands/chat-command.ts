import type { Command } from 'commander';
import { Chat, type ChatFlags, type Said } from '../chat.ts';
import type { CommandHost } from '../command-host.ts';
import { Interruption } from '../interruption.ts';
import { type LineSource, PipedLines, TypedLines } from '../line-source.ts';
import { modelSettings } from '../model-settings.ts';
import { openSession, type Session } from '../session.ts';
import { turnStore } from '../store-settings.ts';
import type { Terminal } from '../terminal.ts';
import { addContextFlag, addNewTurnFlags } from '../turn-flags.ts';

const interruptedByKey = 130;

/** Adds `millrace chat`: many turns in the terminal. */
export function addChatCommand(program: Command, host: CommandHost): void {
  addContextFlag(addNewTurnFlags(program.command('chat')))
    .summary('chat: many turns, one conversation')
    .description(
      'Chat in the terminal, and answer questions of a turn. Ctrl-C stops an answer; at the prompt it exits. Also reads lines from a pipe.',
    )
    .action((flags: ChatFlags) => chat(flags, host));
}

async function chat(flags: ChatFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  const model = modelSettings(flags, terminal.env);
  const store = turnStore(flags, terminal.env);
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  try {
    const start = { model, store, flags, terminal, interruption };
    const session = await openSession({ ...start, traced: true, standInDelayMs: 25 });
    const lines = host.stdin.isTTY ? typed(interruption, host) : piped(interruption, host);
    try {
      const talk = new Chat({ session, host, flags, lines, interruption });
      if (host.stdin.isTTY) greet(session, terminal);
      host.exitCode = await (host.stdin.isTTY ? talkTyped : talkPiped)({ talk, lines, interruption, host });
      talk.leave();
    } finally {
      lines.close();
      await session.close();
    }
  } finally {
    interruption.close();
  }
}

function typed(interruption: Interruption, host: CommandHost): LineSource {
  const { style, stdout } = host.terminal;
  return new TypedLines({
    input: host.stdin,
    output: promptOf(host),
    prompt: `${style.cyan(style.glyphs.prompt)} `,
    signal: () => AbortSignal.any([interruption.signal, stdout.closed]),
  });
}

function promptOf({ terminal, stdout, stderr }: CommandHost): CommandHost['stdout'] {
  return terminal.stdout.isTerminal ? stdout : stderr;
}

function piped(interruption: Interruption, host: CommandHost): LineSource {
  return new PipedLines({ input: host.stdin, signal: () => interruption.signal });
}

interface Talking {
  readonly talk: Chat;
  readonly lines: LineSource;
  readonly interruption: Interruption;
  readonly host: CommandHost;
}

/** Ctrl-C stops the turn that runs, and the talk continues; SIGTERM ends both. */
async function talkTyped({ talk, lines, interruption, host }: Talking): Promise<number> {
  for (let said = await talk.open(); ; ) {
    if (!said.continues) return interruption.exitCode ?? said.exitCode;
    if (interruption.exitCode === interruptedByKey) interruption.reset();
    const entry = await lines.next();
    if (entry.kind !== 'text') break;
    said = await take(entry.text.trim(), talk);
    if (!said.continues) return interruption.exitCode ?? said.exitCode;
    promptOf(host).write('\n');
  }
  return interruption.exitCode ?? 0;
}

/** An interruption ends the talk; a turn that failed does not, but shows in the exit code. */
async function talkPiped({ talk, lines, interruption }: Talking): Promise<number> {
  let said = await talk.open();
  let worst = said.exitCode;
  while (said.continues) {
    const entry = await lines.next();
    if (entry.kind !== 'text') break;
    said = await take(entry.text.trim(), talk);
    worst = Math.max(worst, said.exitCode);
  }
  return interruption.exitCode ?? worst;
}

async function take(entry: string, talk: Chat): Promise<Said> {
  if (entry === '') return { continues: true, exitCode: 0 };
  if (/^\/\w+$/.test(entry)) return { continues: await talk.command(entry), exitCode: 0 };
  return talk.say(entry);
}

function greet(session: Session, { stderr, errorStyle }: Terminal): void {
  const { bold, dim, glyphs } = errorStyle;
  const about = `${session.modelLabel} ${glyphs.dot} ${session.tools.length} tools ${glyphs.dot} /help`;
  void stderr.write(`${bold('millrace chat')} ${dim(`${glyphs.dot} ${about}`)}\n\n`);
}
