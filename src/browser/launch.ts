import { randomInt } from 'node:crypto';

import type { BinaryInfo } from './binary-info.ts';
import type { ProxySettings, WrapperLaunch } from './binary-job.ts';
import type { SandboxChoice } from './sandbox.ts';

/** Everything upstream has to be told to launch the browser. */
export interface LaunchPlan {
  readonly executablePath: string;
  readonly args: readonly string[];
  readonly ignoreDefaultArgs: readonly string[];
  readonly chromiumSandbox: boolean;
  readonly proxy?: ProxySettings;
  /** Variables that the browser needs in addition to its environment (a licence key). */
  readonly env?: Readonly<Record<string, string>>;
  readonly headless: boolean;
  readonly info: BinaryInfo;
  /** Sentences to tell the user once. */
  readonly notes: readonly string[];
}

/** What a plan is made of. */
export interface PlanParts {
  readonly launch: WrapperLaunch;
  readonly info: BinaryInfo;
  readonly extraArgs: readonly string[];
  /** The user's own choice; undefined means that detection decides. */
  readonly sandbox: boolean | undefined;
  readonly detected: SandboxChoice;
}

const noSandboxArgs = ['--no-sandbox', '--disable-setuid-sandbox'];

/** True if the arguments of the user ask for no sandbox. */
export function refusesSandbox(extraArgs: readonly string[]): boolean {
  return extraArgs.some((arg) => noSandboxArgs.includes(arg));
}

function sandboxNote(parts: PlanParts): string | undefined {
  if (parts.sandbox === true && refusesSandbox(parts.extraArgs)) {
    return 'The sandbox is on because of --sandbox; --no-sandbox in the extra arguments was dropped.';
  }
  if (parts.sandbox !== undefined || refusesSandbox(parts.extraArgs) || parts.detected.enabled) return undefined;
  return `Chromium's sandbox is off: ${parts.detected.reason ?? 'it cannot work here'}. --sandbox asks for it in spite of that.`;
}

function chooseSandbox(parts: PlanParts): boolean {
  if (parts.sandbox !== undefined) return parts.sandbox;
  return !refusesSandbox(parts.extraArgs) && parts.detected.enabled;
}

/** Makes the plan from what the wrapper's builder returned. The sandbox is told by one setting only, never by arguments. */
export function planLaunch(parts: PlanParts): LaunchPlan {
  const { launch, info } = parts;
  const note = sandboxNote(parts);
  const hasEnv = launch.env !== undefined && Object.keys(launch.env).length > 0;
  return {
    executablePath: launch.executablePath,
    args: launch.args.filter((arg) => !noSandboxArgs.includes(arg)),
    ignoreDefaultArgs: launch.ignoreDefaultArgs,
    chromiumSandbox: chooseSandbox(parts),
    ...(launch.proxy === undefined ? {} : { proxy: launch.proxy }),
    ...(hasEnv ? { env: launch.env } : {}),
    headless: launch.headless,
    info,
    notes: note === undefined ? [] : [note],
  };
}

const seedFlag = '--fingerprint=';

/** A new fingerprint seed, from the range that cloakbrowser 0.5.10 draws from. */
export function drawSeed(): number {
  return randomInt(10_000, 100_000);
}

/** The plan with another fingerprint seed, where the wrapper drew one; a seed among the user's own arguments stays. */
export function withSeed(plan: LaunchPlan, seed: number, extraArgs: readonly string[] = []): LaunchPlan {
  if (extraArgs.some((arg) => arg.startsWith(seedFlag))) return plan;
  return { ...plan, args: plan.args.map((arg) => (arg.startsWith(seedFlag) ? `${seedFlag}${seed}` : arg)) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // A bare percent sign in a password that was not encoded.
  }
}

/**
 * Takes credentials out of a proxy address, so that the wrapper can keep them off the command line where the browser
 * allows it. Credentials given apart win.
 */
export function separateCredentials(proxy: ProxySettings): ProxySettings {
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(proxy.server)?.[0] ?? '';
  const rest = proxy.server.slice(scheme.length);
  // The last @ ends the credentials: an unencoded one may stand in a password.
  const end = rest.lastIndexOf('@');
  if (end < 0) return proxy;
  const [user = '', ...password] = rest.slice(0, end).split(':');
  return {
    ...proxy,
    server: `${scheme}${rest.slice(end + 1)}`,
    username: proxy.username ?? decode(user),
    ...(password.length === 0 ? {} : { password: proxy.password ?? decode(password.join(':')) }),
  };
}
