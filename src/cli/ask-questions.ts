import type { Question } from '../core/journal/index.ts';
import type { Answers } from './answers.ts';
import type { LineSource } from './line-source.ts';
import { complain } from './notes.ts';
import { questionBlock } from './question-block.ts';
import type { Terminal } from './terminal.ts';
import { answerHint, isSecret, typedAnswer } from './typed-answer.ts';
import { wrapLines } from './wrap-lines.ts';

/** What came of asking: the answers by question; or the turn is to be cancelled, or left as it waits. */
export type Asked = Answers | 'cancel' | 'leave';

export interface AskOptions {
  readonly lines: LineSource;
  readonly terminal: Terminal;
  /** Shows the lines of a question. */
  readonly show: (lines: readonly string[]) => void;
}

const help = 'Ctrl-C or /cancel stops the turn; /all shows the question in full; Ctrl-D or /quit exits';

/** Shows the questions of a turn, one after the other, and reads an answer to each, again where it does not fit. */
export async function askQuestions(questions: readonly Question[], options: AskOptions): Promise<Asked> {
  const answers = new Map<string, unknown>();
  for (const question of questions) {
    const asked = await askOne(question, options);
    if (typeof asked === 'string') return asked;
    answers.set(question.id, asked.answer);
  }
  return Object.fromEntries(answers);
}

async function askOne(
  question: Question,
  { lines, terminal, show }: AskOptions,
): Promise<{ readonly answer: unknown } | 'cancel' | 'leave'> {
  const { stderr, errorStyle: style } = terminal;
  const showBlock = (whole: boolean) => show(questionBlock(question, { style, columns: stderr.columns }, whole));
  const prompt = `  ${style.dim(`(${answerHint(question)})`)} ${style.cyan(style.glyphs.prompt)} `;
  showBlock(false);
  for (;;) {
    const entry = await lines.answer({ prompt, secret: isSecret(question) });
    if (entry.kind === 'interrupted') return 'cancel';
    if (entry.kind === 'end') return 'leave';
    const text = entry.text.trim();
    if (text === '/cancel') return 'cancel';
    if (text === '/quit' || text === '/exit') return 'leave';
    if (text === '/all') showBlock(true);
    else if (text === '/help')
      void stderr.write(
        wrapLines(help, stderr.columns - 3)
          .map((l) => `  ${l}\n`)
          .join(''),
      );
    else {
      const typed = typedAnswer(question, text);
      if ('answer' in typed) return typed;
      complain(terminal, typed.flaw);
    }
  }
}
