"""The command line: parsing, configs and RUN folders. Knows no family.

A room's command is a module with
    OPTIONS                                 what a fit is told of its data, see `options.Option`; DATA is among them
    fit(model, options, **run)              read the data that the options name, and fit
    predict(model, options, path)           a table, one row a row of the file
    score(model, options, path, seed)       a dict of numbers, and the `Scored` that `compare` goes by
    sample(model, options, n, seed)         a table
    report_data(model, options, path)       what `model.report` is given
and where it needs them
    PREDICT, SCORE, REPORT                  options of these commands that not every model has
    settle(options, told)                   options of a fit that follow from others; `told` names those that the line sets
    report_options(model, options, path)    the file to report on, and further arguments of `model.report`
"""
