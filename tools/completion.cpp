// SPDX-License-Identifier: Apache-2.0
// stax completion: what a shell reads to complete commands and options. The words come from the commands themselves.
#include <cstdio>

#include "commands.h"
#include "support/error.h"

namespace stax::tool {
namespace {

std::string options_of(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* o : command.get_options())
    for (const std::string& name : o->get_lnames()) words += (words.empty() ? "--" : " --") + name;
  return words;
}

std::string bash(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += (commands.empty() ? "" : " ") + c->get_name();
    cases += fmt::format("    {}) words=\"{}\" ;;\n", c->get_name(), options_of(*c));
  }
  return fmt::format(
      "# bash completion of stax: source <(stax completion bash)\n"
      "_stax() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words=\"\"\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W \"{} --help\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  if [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _stax stax\n",
      commands, cases);
}

}  // namespace

void add_completion(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto shell = std::make_shared<std::string>();
  CLI::App* c = app.add_subcommand("completion", "Words for the shell's Tab key");
  c->add_option("shell", *shell, "bash or zsh")->required();
  c->footer("  source <(stax completion bash)      in ~/.bashrc\n  source <(stax completion zsh)       in ~/.zshrc");
  actions[c] = [shell, &app] {
    const std::string text = bash(app);
    if (*shell == "bash") {
      std::fputs(text.c_str(), stdout);
    } else if (*shell == "zsh") {  // which runs functions made for bash
      std::printf("autoload -U +X bashcompinit && bashcompinit\n%s", text.c_str());
    } else {
      user_error("there are no words for the shell '{}'; there are for bash and zsh", *shell);
    }
    return 0;
  };
}

}  // namespace stax::tool
