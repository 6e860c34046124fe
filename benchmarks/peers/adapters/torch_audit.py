"""torch-audit as its README starts: `autopatch()` before the loop, `finish()` after it; every tenth step is audited."""

from torch_audit import autopatch


def watch(train, model, loss_function, optimizer, train_loader):
    auditor = autopatch(model, optimizer=optimizer, every_n_steps=10, reporters=[], run_static=True, run_init=True)
    train()
    result = auditor.finish(report=False)
    auditor.unpatch()
    said = set()
    for finding in result.findings:
        alarm = (
            f"{finding.severity.value} {finding.rule_id} {finding.module_path or finding.entity or ''}: "
            f"{finding.message}"
        )
        about = (finding.rule_id, finding.module_path, finding.entity)
        if finding.severity.value != "INFO" and about not in said:
            said.add(about)
            yield alarm
