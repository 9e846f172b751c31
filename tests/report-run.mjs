import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** Reports after the last test what a reader looks for there: parts that were missing, and the tests that failed. */
export default class ReportRun {
  onRunComplete(_contexts, { testResults }) {
    const lines = [...linesOfParts(testResults.flatMap((file) => file.testResults)), ...linesOfFailures(testResults)];
    for (const line of lines) process.stderr.write(`${line}\n`);
  }
}

/** Which real parts the tests ran against, in which versions, and which ones were missing. */
function linesOfParts(tests) {
  const parts = Object.entries(JSON.parse(process.env.MILLRACE_REAL_PARTS ?? '{}')).flatMap(([name, part]) => {
    const own = tests.filter((test) => test.fullName.includes(`[${name}]`));
    const count = (status) => own.filter((test) => test.status === status).length;
    if (own.length === 0) return [];
    if (part.missing !== undefined) return [[name, 'SKIPPED', `${count('pending')} tests: ${part.missing}`]];
    return [[name, part.version, `${count('passed')} passed, ${count('failed')} failed`]];
  });
  if (parts.length === 0) return [];
  const widths = [0, 1].map((column) => Math.max(...parts.map((part) => part[column].length)));
  const lineOf = ([name, version, outcome]) => `  ${name.padEnd(widths[0])}  ${version.padEnd(widths[1])}  ${outcome}`;
  return ['', 'Real parts:', ...parts.map(lineOf)];
}

/** Fits on a screen, below which jest prints its totals. */
const mostNamed = 8;

function linesOfFailures(files) {
  const failed = files.flatMap(({ testFilePath, testResults, testExecError, failureMessage }) => {
    const path = relative(process.cwd(), testFilePath);
    if (testExecError) return [[path, testExecError.message ?? failureMessage ?? '']];
    return testResults
      .filter(({ status }) => status === 'failed')
      .map(({ fullName, failureMessages }) => [`${path} › ${fullName}`, failureMessages[0] ?? '']);
  });
  if (failed.length === 0) return [];
  const lines = failed.slice(0, mostNamed).flatMap(([name, message]) => [`  ${name}`, `    ${firstLineOf(message)}`]);
  const more = failed.length - mostNamed;
  return ['', `Failed tests: ${failed.length}`, ...lines, ...(more > 0 ? [`  and ${more} more`] : [])];
}

function firstLineOf(message) {
  const line = stripVTControlCharacters(message).trim().split('\n', 1)[0] ?? '';
  return line.length > 200 ? `${line.slice(0, 200)} …` : line;
}
