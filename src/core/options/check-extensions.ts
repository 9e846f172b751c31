import type { Extension } from '../contracts/extension.ts';
import { invalidConfig } from '../contracts/invalid-config.ts';
import { shownValue } from '../contracts/shown-value.ts';
import type { ToolProvider } from '../contracts/tool.ts';
import { hookNames } from '../hooks/hook-table.ts';

const hooks: ReadonlySet<string> = new Set(hookNames);

/** Checks the extensions of a configuration. Errors: `INVALID_CONFIG`, naming the extension, what is wrong and the cure. */
export function checkExtensions(
  extensions: readonly Extension[],
  checkToolProvider: (name: string, provider: ToolProvider) => void,
): void {
  if (!Array.isArray(extensions)) throw invalidConfig('extensions must be an array', 'write extensions: [{ name, … }]');
  const names = new Set<string>();
  for (const [index, extension] of extensions.entries()) {
    const at = `extensions[${index}]`;
    // A function has a name too, and no hook.
    if (typeof extension === 'function')
      throw invalidConfig(`${at} must be an extension, not a function`, 'call what makes it, e.g. limits({ … })');
    checkName(at, extension?.name);
    if (names.has(extension.name)) {
      throw invalidConfig(
        `two extensions are called "${extension.name}"`,
        'their records and errors go by the name: rename one',
      );
    }
    names.add(extension.name);
    for (const [member, value] of Object.entries(extension)) checkMember(at, member, value);
    for (const [place, provider] of (extension.toolProviders ?? []).entries()) {
      checkToolProvider(`${at}.toolProviders[${place}]`, provider);
    }
  }
}

function checkName(at: string, name: unknown): void {
  if (typeof name !== 'string' || name === '') throw invalidConfig(`${at} must have a name`, 'it stands in errors');
  if (/^[\w.-]+$/.test(name) && name !== 'steer') return;
  const cure = 'use letters, digits, "-", "_" and ".", and not "steer"';
  throw invalidConfig(`${at} cannot be called ${shownValue(name)}`, cure);
}

function checkMember(at: string, member: string, value: unknown): void {
  if (value === undefined || member === 'name') return;
  switch (member) {
    case 'onError':
      if (value === 'fail' || value === 'continue') return;
      throw invalidConfig(`${at}.onError must be "fail" or "continue", not ${shownValue(value)}`, 'or leave it out');
    case 'timeoutMs':
      if (typeof value === 'number' && value >= 0 && value <= 2 ** 31 - 1) return;
      throw invalidConfig(`${at}.timeoutMs must be milliseconds from 0, not ${shownValue(value)}`, 'or leave it out');
    case 'toolProviders':
      if (Array.isArray(value)) return;
      throw invalidConfig(`${at}.toolProviders must be an array`, 'or leave it out');
    case 'limitUsage':
    case 'partials':
      if (typeof value === 'function') return;
      throw invalidConfig(`${at}.${member} must be a function, not ${shownValue(value)}`, 'or leave it out');
    default:
      if (hooks.has(member) && typeof value === 'function') return;
      throw invalidConfig(`${at}.${member} is no hook`, `the hooks are functions: ${hookNames.join(', ')}`);
  }
}
